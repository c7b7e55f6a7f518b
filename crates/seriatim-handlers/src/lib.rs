//! Sinks: where changes go outside of the databases, and outside of Rust. A [`Command`] reads them as lines of JSON, a
//! [`Webhook`] gets them by POST, [`Stdout`] writes them to the standard output.
//!
//! All of them see each change at least once, with an id that is the same on every redelivery, and the changes of one object in
//! order: the next one is sent when the one before it is answered. [`Sink`] is their contract.

pub mod command;
pub mod webhook;
mod sink;
mod stdout;

pub use command::{Command, CommandSettings};
pub use sink::{Guarantee, Memory, Sink, Unit};
pub use stdout::Stdout;
pub use webhook::{Webhook, WebhookSettings};
