//! All integration tests of the crate, in one binary.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod store_conformance;
mod once_conformance;
mod once_processes;
mod once_file;
mod store_processes;
mod store_file;
mod gate;
mod queue;
mod queue_processes;
mod transaction;
mod sql_effect;
mod support;
mod capture_divided;
mod capture_kit;
mod capture_journal;
mod capture_replace;
mod capture_random;
mod capture_nested;
mod capture_null_keys;
mod capture_busy;
mod capture_backfill;
mod capture_schema;
mod capture_untyped_keys;
mod capture_reading;
mod capture_log;
mod capture_refusals;
mod capture_filter;
mod window_kit;
mod window_rows;
mod window_late;
mod window_ahead;
mod window_refusals;
mod window_hosts;
