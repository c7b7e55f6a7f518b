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
//! | `seriatim-dashboard` | a page and a JSON API, as routes of axum |
//! | `seriatim-cli` | the program `seriatim` |
//!
//! # Its front doors
//! Each of them in full, with a database, is in the folder `examples` of the repository.
//!
//! **A feed, a handler, a host.** Every change of a table, at least once each, in the order of its row. The feed comes from a crate
//! of the table above: `seriatim_sqlite::Source::new("shop.db").journal("orders")`, or `seriatim_postgres::Source`'s. The store is
//! `seriatim_sqlite::SqliteStore::open("shop.db").await?`, or another crate's.
//!
//! ```
//! use std::sync::Arc;
//! use seriatim::source::Feed;
//! use seriatim::{Change, ConfigureFeed, Context, Failure, Host, Store, Value};
//!
//! async fn bill(orders: impl Feed, store: Arc<dyn Store>) -> Result<(), seriatim::host::HostError> {
//!     let handler = |change: Change, _: Context| async move {
//!         let row = change.after.as_ref();
//!         let amount = row.and_then(|row| row.get("amount")).and_then(Value::as_i64);
//!         println!("{:?} costs {amount:?} now", change.key);
//!         // Any error will do, `anyhow::Error` too; `Failure::poison` and `Failure::target` say more.
//!         Ok::<(), Failure>(())
//!     };
//!     // In as many processes as you like, each under a name of its own.
//!     Host::new("billing-1", store).feed(orders.batch(10), handler).run_once().await
//! }
//! ```
//!
//! **Exactly once.** With [`Host::feed_in_transaction`] the effect is part of the checkpoint's transaction:
//! `seriatim_sqlite::in_transaction(&store, |changes, transaction| …)`, and the same in `seriatim_postgres`.
//!
//! **Once for each signal.** [`Once::protect`] has an effect happen once, however often its signal arrives, and wherever.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use std::sync::Arc;
//! use seriatim::once::{MemoryLedger, Once, Outcome};
//!
//! let once = Once::new(Arc::new(MemoryLedger::new()), "mailer");
//! let send_mail = async || Ok::<_, std::io::Error>("receipt".to_owned());
//! assert_eq!(once.protect("payment-42", send_mail).await?, Outcome::Ran("receipt".to_owned()));
//! assert_eq!(once.protect("payment-42", send_mail).await?, Outcome::Duplicate("receipt".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! **Events that carry their order.** Producers push to a [`queue`], workers send on, and a consumer's gate ([`order`]) applies each event
//! once and in order, however it arrives.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use std::sync::{Arc, Mutex};
//! use seriatim::name::ObjectName;
//! use seriatim::order::{Gate, JsonLines, Limits, MemoryGateState};
//! use seriatim::queue::{Body, Event, MemoryQueue, Queue, Worker};
//!
//! let (queue, sent) = (Arc::new(MemoryQueue::new()), Arc::new(Mutex::new(Vec::new())));
//! queue.push(&ObjectName::new("work:1")?, &[Body::from(r#"{"title":"Emma"}"#), Body::from(r#"{"year":1815}"#)]).await?;
//! let outbox = Arc::clone(&sent);
//! let send = move |event: Event| {
//!     outbox.lock().unwrap().push(event.to_json());
//!     async { Ok::<(), std::io::Error>(()) }
//! };
//! Worker::new("w1", queue).drain(send).await?;
//!
//! let mut gate = JsonLines::new(Gate::open(MemoryGateState::default(), Limits::default()).await?);
//! let lines = sent.lock().unwrap().clone();
//! assert_eq!(gate.next(&lines[1]).await?, None, "the second waits for the first");
//! assert_eq!(gate.next(&lines[0]).await?.as_ref(), Some(&lines[0]));
//! assert_eq!(gate.applied(&lines[0]).await?.as_ref(), Some(&lines[1]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! **Records by the moment of their last change.** For databases where nobody may create triggers:
//! [`source::window::Processor`] fetches a window of records and processes them.

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
pub use host::{ConfigureFeed, Host};
pub use name::{Epoch, FeedName, HostName, Partition};
pub use once::{Once, Outcome};
pub use store::{MemoryStore, Store};
pub use value::{Columns, Key, Row, Value};
