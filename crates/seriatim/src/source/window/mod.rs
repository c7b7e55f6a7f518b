//! Windows over changed records: for tables that have a `changed_at` column, and databases where nobody may create triggers.
//!
//! ```text
//!        passed          │        window          │   buffer    │
//!  ──────────────────────┼────────────────────────┼─────────────┼──▶ changed_at
//!                     tracker                   finish         now
//! ```
//!
//! A [`Processor`] says how to fetch the records that changed in a span of time, and what to do with them. Seriatim keeps the
//! tracker, the moment up to which everything is done, as the checkpoint of a feed with one partition: in any store, under a
//! lease, so that of several processes one works and another takes over when it dies.
//!
//! - A window ends `buffer` before the present, because a record carries a moment at which it was not visible yet. A change that
//!   becomes visible later than that is missed: the buffer must be longer than the longest transaction, or the source must know
//!   better (see the captures named `window` of the databases' crates).
//! - The present is the source's, by its [`Clock`]; what time it is on this machine is never asked.
//! - The tracker moves after `process` has succeeded, never backwards, and only under the lease. After a crash, the window that
//!   was under way is processed again: at least once.
//! - Too many records for one window ([`Processor::EXCESSIVE_COUNT`]): the window ends at the last of them, and those that share
//!   its instant are left for the next, unless a [`Processor::tie`] orders them. If nothing remains, the feed stops and says so.
//! - A record that changes more often than the buffer would never be seen at rest. It is processed without waiting any longer
//!   once it has been seen changing twice, ten buffers apart (two, with a tie), and again when it rests: the tracker does not
//!   move for it, so nothing can be lost by that.
//!
//! ```
//! # use std::sync::Arc;
//! use seriatim::source::window::{Age, Clock, Processor, Result, Window, Windows};
//! use seriatim::{Host, Store, jiff::Timestamp};
//!
//! #[derive(Clone)]
//! struct Invoice { number: i64, changed_at: Timestamp }
//! struct Invoices;
//!
//! impl Processor for Invoices {
//!     type Record = Invoice;
//!     const EXCESSIVE_COUNT: usize = 500;
//!     const STALE_AGE: Age = Age::Infinite;
//!
//!     async fn fetch(&self, window: Window) -> Result<Vec<Invoice>> {
//!         // select … where changed_at >= :from and changed_at < :to order by changed_at limit :limit
//!         # let _ = window;
//!         Ok(Vec::new())
//!     }
//!
//!     async fn process(&self, invoices: Vec<Invoice>) -> Result<()> {
//!         invoices.iter().for_each(|invoice| println!("{} has changed", invoice.number));
//!         Ok(())
//!     }
//!
//!     fn changed_at(&self, invoice: &Invoice) -> Timestamp {
//!         invoice.changed_at
//!     }
//! }
//!
//! async fn run(store: impl Store, database: impl Clock) -> std::result::Result<(), Box<dyn std::error::Error>> {
//!     let invoices = Windows::new("invoices", Invoices, database)?;
//!     Ok(Host::new("billing-1", Arc::new(store)).windows(invoices).run_once().await?)
//! }
//! ```

mod tie;
mod arithmetic;
pub(crate) mod hot_rows;
mod environment;
mod arguments;
mod tracker;
mod windows;
mod feed;
pub(crate) mod rows;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::future::Future;

use async_trait::async_trait;
use jiff::Timestamp;

pub use arguments::Arguments;
pub use arithmetic::{Age, Place, Plan, Rules, Settled, Unsettled, Window, earlier, rounded_down};
pub use environment::{BadVariable, Overrides, excessive_count_variable};
use hot_rows::HotRows;
pub use tie::Tie;
pub use windows::{Windows, WrongWindows};

use super::{Cause, SourceError};

/// What a processor's methods return: any error will do.
pub type Result<T> = std::result::Result<T, Cause>;

/// Some kind of work that follows from changed records: how to fetch them, and what to do with them.
///
/// # What it can rely on
/// - `process` gets what `fetch` returned, in that order, from the first; never anything of two windows at once.
/// - Windows come one after another. The next one is not processed before `process` has succeeded for the last.
/// - An error of either is tried again, with growing pauses, for as long as it takes; the tracker stays where it is.
/// - Two processors of one name and with the same [`Processor::arguments`] never work at the same time, in all processes that
///   share a store; one that lost its lease cannot move the tracker.
pub trait Processor: Send + Sync + 'static {
    /// One changed record. Cloned for each attempt at processing it.
    type Record: Clone + Send + Sync + 'static;

    /// How many records are too many for one window: what `fetch` returns at most. The environment variable
    /// `<NAME>_EXCESSIVE_COUNT` overrides it.
    const EXCESSIVE_COUNT: usize;

    /// From which age on a record is of no interest any more.
    const STALE_AGE: Age;

    /// Fetches the records of the window, ordered by `changed_at` and then by tie, at most [`Window::limit`] of them.
    fn fetch(&self, window: Window) -> impl Future<Output = Result<Vec<Self::Record>>> + Send;

    /// Processes records, in this order. `Ok` means that all of them are done.
    fn process(&self, records: Vec<Self::Record>) -> impl Future<Output = Result<()>> + Send;

    /// When the record changed, by the source's clock.
    fn changed_at(&self, record: &Self::Record) -> Timestamp;

    /// What orders the record among those of its instant; all records have one, or none has. With it, `fetch` must return the
    /// records of one instant in its order, and respect [`Window::after`].
    fn tie(&self, record: &Self::Record) -> Option<Tie> {
        let _ = record;
        None
    }

    /// With which arguments this processor runs: one that runs with others has a tracker of its own.
    fn arguments(&self) -> Arguments {
        Arguments::none()
    }
}

/// The clock of a source. All that windows know of the present is what it says.
///
/// Any closure `Fn() -> impl Future<Output = Result<Timestamp, SourceError>>` is one.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The present, by the database that stamps the records.
    async fn now(&self) -> std::result::Result<Timestamp, SourceError>;
}

#[async_trait]
impl<F, Fut> Clock for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<Timestamp, SourceError>> + Send,
{
    async fn now(&self) -> std::result::Result<Timestamp, SourceError> {
        self().await
    }
}
