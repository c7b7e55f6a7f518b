//! Handlers outside of Rust: a [`Command`] that reads changes as lines of JSON, and a [`Webhook`] that gets them by POST.
//!
//! Both see each change at least once, with an id that is the same on every redelivery, and the changes of one object in
//! order: the next one is sent when the one before it is answered.

pub mod command;
pub mod webhook;

pub use command::{Command, CommandSettings};
pub use webhook::{Webhook, WebhookSettings};
