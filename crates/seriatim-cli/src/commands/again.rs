//! What a rewind does about changes that the ledger of their feed remembers.

use std::sync::Arc;

use seriatim::change::Position;
use seriatim::lease::LeaseView;
use seriatim::once::{Ledger, Listing, ProcessorId, Record, Signal, SignalId, State, signal_id};
use seriatim::source::{Cursor, Feed, Limit, Sliced};
use seriatim::{Change, Partition};

use crate::config::{Config, FeedConfig};
use crate::error::Result;
use crate::{databases, handlers, output};

/// So much is read at once.
const LIMIT: Limit = Limit { rows: 10_000, bytes: 16 << 20 };

/// The ledger of a feed's changes, and the processor that they are remembered under.
struct Remembered {
    ledger: Arc<dyn Ledger>,
    processor: ProcessorId,
}

impl Remembered {
    /// Nothing, where nothing was ever remembered.
    async fn of(feed: &FeedConfig, config: &Config) -> Result<Option<Self>> {
        let ledger = databases::existing_ledger(&config.store).await?;
        let processor = ProcessorId::new(&handlers::processor(&feed.name)).ok();
        Ok(ledger.zip(processor).map(|(ledger, processor)| Remembered { ledger, processor }))
    }

    /// Forgets a change if it is handled, and says whether it did.
    async fn forget(&self, change: &Change) -> Result<bool> {
        let Ok(id) = SignalId::new(&signal_id(change)) else { return Ok(false) };
        let signal = Signal { processor: self.processor.clone(), id };
        match self.ledger.show(&signal).await? {
            Some(record) if record.state == State::Completed => self.forget_record(&record).await,
            _ => Ok(false),
        }
    }

    async fn forget_record(&self, record: &Record) -> Result<bool> {
        Ok(self.ledger.forget(&record.signal, &record.run).await?)
    }
}

/// Has the changes after this position run again, though they are done; those before it stay remembered. Before the rewind: a host
/// that takes the feed over at once must not find them in the ledger. Returns how many.
pub async fn forget_after(
    feed: &FeedConfig,
    config: &Config,
    leases: &[&LeaseView],
    position: &Position,
) -> Result<u64> {
    let Some(remembered) = Remembered::of(feed, config).await? else { return Ok(0) };
    let capture: Arc<dyn Feed> = databases::capture(feed);
    // Nothing is changing: all of them were made together.
    let part = leases.first().and_then(|lease| lease.part.as_ref());
    let capture = part.and_then(|part| Sliced::of(&capture, part)).unwrap_or(capture);
    let cursor = |lease: &&LeaseView| Cursor { partition: lease.id.partition, after: position.clone() };
    let mut cursors: Vec<Cursor> = leases.iter().map(cursor).collect();
    let mut forgotten = 0;
    while !cursors.is_empty() {
        for slice in capture.read(&cursors, LIMIT).await? {
            for change in slice.changes {
                forgotten += u64::from(remembered.forget(&change).await?);
            }
            cursors.retain(|cursor| cursor.partition != slice.partition);
            if !slice.caught_up {
                cursors.push(Cursor { partition: slice.partition, after: slice.upto });
            }
        }
    }
    Ok(forgotten)
}

/// Has all changes of the feed, or of a partition, run again. Returns how many were handled.
pub async fn forget_all(feed: &FeedConfig, config: &Config, partition: Option<Partition>) -> Result<u64> {
    let Some(remembered) = Remembered::of(feed, config).await? else { return Ok(0) };
    let processor = Some(remembered.processor.clone());
    let listing = Listing { processor, state: Some(State::Completed), ..Listing::default() };
    let (mut forgotten, mut from) = (0, None);
    loop {
        let page = remembered.ledger.list(&listing, from.as_ref()).await?;
        for record in page.records.iter().filter(|record| is_of(record, partition)) {
            forgotten += u64::from(remembered.forget_record(record).await?);
        }
        from = page.next;
        if from.is_none() {
            return Ok(forgotten);
        }
    }
}

/// A change's id in the ledger begins with its partition.
fn is_of(record: &Record, partition: Option<Partition>) -> bool {
    let place = record.signal.id.as_str().split('/').next();
    partition.is_none_or(|partition| place == Some(partition.to_string().as_str()))
}

/// Says which changes the rewound feed will handle.
pub fn tell(feed: &FeedConfig, forgotten: Option<u64>) -> Result<()> {
    let name = &feed.name;
    match forgotten {
        Some(count) => {
            output::line(format_args!("feed {name}: {count} handled changes are forgotten and run again"))
        }
        None => output::line(format_args!(
            "feed {name}: it has once = true: changes that its ledger remembers as handled do not run again; with --again they do"
        )),
    }?;
    Ok(())
}
