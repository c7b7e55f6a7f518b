//! Seriatim on PostgreSQL.
//!
//! - [`PostgresStore`]: the store for a fleet, in a schema of Seriatim's own.
//! - [`PostgresLedger`]: where [`Once`](seriatim::Once) remembers which signals were handled.
//! - [`PostgresQueue`]: events that producers push in their own transactions, and workers send on in order.
//! - [`PostgresGateState`]: what a consumer's gate must not forget.
//! - `Source`: a database whose tables are watched; its captures are `journal` and `log`, by triggers, and
//!   `window`, by a column with the moment of the last change.
//! - [`in_transaction`]: a handler whose effect is in the checkpoint's transaction: exactly once.
//! - [`SqlEffect`]: an effect that is SQL with named parameters from the change.
//!
//! PostgreSQL 13 and later. Connections are pooled, TLS is as the URL's `sslmode` says ([`Database`]).

mod database;
mod error;
mod migrate;
mod store;
mod once;
mod queue;
mod gate;
mod capture;
mod sequencer;
mod effect;
mod transaction;
mod purge;
mod turns;

/// The driver that this crate speaks to PostgreSQL with, for handlers of one's own.
pub use tokio_postgres;

pub use capture::{Capture, Horizon, Source, SourceClock, Unit, WindowCapture, log_sql};
pub use database::{Client, Database, Dedicated, Schema, UsersClient};
pub use effect::{ColumnTypes, SqlEffect, SqlHandler, SqlProblem};
pub use error::PostgresError;
pub use gate::PostgresGateState;
pub use once::PostgresLedger;
pub use purge::{LogsByHand, Purged, purge};
pub use queue::PostgresQueue;
pub use store::PostgresStore;
pub use transaction::{Effect, EffectFn, InTransaction, in_transaction};
