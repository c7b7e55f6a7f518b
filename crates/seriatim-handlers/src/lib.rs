//! Sinks: where changes go outside of the databases, and outside of Rust. A [`Command`] reads them as lines of JSON, a
//! [`Webhook`] gets them by POST, [`Stdout`] writes them to the standard output, a [`RedisStream`] holds them as entries. NATS and SQS are
//! features.
//!
//! All of them see each change at least once, with an id that is the same on every redelivery, and the changes of one object in
//! order: the next one is sent when the one before it is answered. [`Sink`] is their contract. A sink with a [`Memory`] holds each
//! change once. [`Envelope`] is the form in which changes leave.

pub mod command;
pub mod envelope;
#[cfg(feature = "nats")]
pub mod nats;
pub mod redis_stream;
#[cfg(feature = "sqs")]
pub mod sqs;
pub mod webhook;
mod generations;
mod memory;
mod sink;
mod stdout;
mod template;

pub use command::{Command, CommandSettings};
pub use envelope::{Envelope, Format, Mode, Origin};
pub use generations::{Generations, LedgerGenerations};
pub use memory::{Generation, Judgement, Mark, NoMark};
#[cfg(feature = "nats")]
pub use nats::{Nats, NatsSettings};
pub use redis_stream::{RedisStream, StreamSettings};
pub use sink::{Guarantee, Memory, Sink, Unit};
#[cfg(feature = "sqs")]
pub use sqs::{Sqs, SqsSettings};
pub use stdout::Stdout;
pub use template::{BadTemplate, Template};
pub use webhook::{Webhook, WebhookSettings};
