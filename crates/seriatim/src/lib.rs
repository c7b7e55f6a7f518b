//! Seriatim notices every change of a database's records and has each one handled in order, once, by a fleet of
//! workers that may crash at any moment.
//!
//! ```text
//!    notice            order               own                handle                 remember
//!  ┌──────────┐     ┌──────────┐     ┌──────────────┐     ┌──────────────┐     ┌────────────────┐
//!  │ source   │ ──▶ │ order    │ ──▶ │ lease + host │ ──▶ │ handler      │ ──▶ │ store          │
//!  │ journal  │     │ partition│     │ balance      │     │ lanes, retry │     │ checkpoint,    │
//!  │ log      │     │ by key   │     │ fence        │     │ park         │     │ fenced, with   │
//!  │ window   │     │          │     │ hand over    │     │              │     │ the effect     │
//!  │          │     │          │     │              │     │              │     │ where it can   │
//!  └──────────┘     └──────────┘     └──────────────┘     └──────────────┘     └────────────────┘
//!                           every box talks to one `store`, and only through its contract
//! ```
//!
//! The modules below stand in the order of that way. This crate has no database driver in it:
//!
//! | crate | brings |
//! |---|---|
//! | `seriatim-sqlite` | SQLite: store, ledger, gates, queues, captures; SQL effects exactly once |
//! | `seriatim-postgres` | PostgreSQL: the same, for a fleet |
//! | `seriatim-redis` | Redis: store, ledger, gates, queues |
//! | `seriatim-dynamodb` | DynamoDB: store, ledger |
//! | `seriatim-handlers` | sinks: commands, webhooks, the standard output |
//! | `seriatim-testkit` | conformance suites for stores, a store that fails on purpose, a simulator, throw-away servers |
//! | `seriatim-cli` | the program `seriatim` |

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

/// Moments and spans of time, as this crate uses them.
pub use jiff;

pub mod change;
pub mod clock;
pub mod name;
pub mod value;
mod tasks;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;

pub mod source;
pub mod queue;
pub mod order;
pub mod lease;
pub mod host;
pub mod handler;
pub mod once;
pub mod store;
#[doc(hidden)]
pub mod backend;

pub use change::{Change, Op, Position};
pub use handler::{Context, Failure, Handler, TransactionalHandler};
pub use host::Host;
pub use name::{Epoch, FeedName, HostName, Partition};
pub use once::{Once, Outcome};
pub use store::{MemoryStore, Store};
pub use value::{Columns, Key, Row, Value};
