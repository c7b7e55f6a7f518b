//! All integration tests of the crate, in one binary.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "nats")]
mod nats;
mod redis_stream;
#[cfg(feature = "sqs")]
mod sqs;
