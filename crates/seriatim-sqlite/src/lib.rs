//! Seriatim on SQLite.
//!
//! - [`SqliteStore`]: the store in one file, shared by any number of processes on one machine.
//! - [`Source`]: a SQLite file whose tables are watched; [`Source::journal`] and [`Source::log`] are its captures by triggers, [`Source::window`] the one
//!   without.
//! - [`SqliteQueue`]: an event queue into which producers push in their own transactions.
//! - [`SqliteGateState`]: what a gate of such events must not forget.
//! - [`SqliteLedger`]: the ledger of signals that were handled, in one file.
//! - [`in_transaction`]: a handler whose effect is in the checkpoint's transaction: exactly once.
//! - [`SqlEffect`]: an effect that is SQL with named parameters from the change.
//!
//! SQLite is bundled, each connection lives on a thread of its own ([`Database`]).

mod database;
mod error;
mod migrate;
mod store;
mod capture;
mod queue;
mod gate;
mod effect;
mod once;
mod purge;
mod transaction;

/// The SQLite that this crate speaks to, for handlers of one's own: another version could not share its transactions.
pub use rusqlite;

pub use capture::{Capture, Horizon, Source, SourceClock, Unit, WindowCapture};
pub use database::Database;
pub use effect::{SqlEffect, SqlHandler, SqlProblem};
pub use error::SqliteError;
pub use gate::SqliteGateState;
pub use once::SqliteLedger;
pub use purge::{Purged, purge};
pub use queue::SqliteQueue;
pub use store::SqliteStore;
pub use transaction::{InTransaction, in_transaction};
