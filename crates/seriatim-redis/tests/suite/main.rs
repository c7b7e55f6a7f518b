//! All integration tests of the crate, in one binary.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod once_conformance;
mod once_failover;
mod once_processes;
mod queue_conformance;
mod queue_keys;
mod gate;
mod queue_processes;
mod queue_refused;
mod store_conformance;
mod store_idle;
mod support;
