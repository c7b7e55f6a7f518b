//! All integration tests of the crate, in one binary.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod cut_off;
mod doors;
mod faulty;
mod fleet;
mod memory_conformance;
mod memory_once;
mod memory_gate;
mod memory_queue;
mod partition_model;
mod queue_model;
mod simulation;
