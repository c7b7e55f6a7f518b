//! All integration tests of the crate, in one binary, against DynamoDB Local.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod once_conformance;
mod once_mnemosyne;
mod once_processes;
mod server;
mod store_conformance;
mod store_idle;
mod store_plans;
mod table;
mod throttling;
