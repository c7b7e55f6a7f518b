//! All integration tests of the crate, in one binary, against a PostgreSQL server of their own.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod support;
mod store_conformance;
mod store_hosts;
mod store_roles;
mod store_fleet;
mod store_parked;
mod store_parked_model;
mod once_conformance;
mod once_faults;
mod once_processes;
mod once_server;
mod queue;
mod gate;
mod queue_processes;
mod database_tls;
mod pooler;
mod transaction;
mod transaction_faults;
mod sql_effect;
mod sql_effect_nested;
mod capture_opening;
mod journal_keys;
mod journal_kit;
mod journal_order;
mod journal_values;
mod journal_tables;
mod journal_large;
mod journal_load;
mod journal_model;
mod journal_backfill;
mod journal_rewrites;
mod journal_shapes;
mod journal_equal_keys;
mod journal_rewatched;
mod log_kit;
mod filters;
mod fleet_load;
mod window_kit;
mod window_rows;
mod window_late;
mod window_ahead;
mod window_hosts;
mod log_order;
mod log_hot;
mod log_tables;
mod log_backfill;
mod log_sql;
mod log_restored;
mod log_hidden;
mod table_names;
mod privileges;
mod log_property;
