//! In which life a partition is, kept in the ledger beside its checkpoints.
//!
//! ```text
//!   first host that asks ──▶ draws a number, the moment in milliseconds ──▶ every host of the partition gets the same
//!   rewind, unwatch      ──▶ forget it and draw a greater one: what comes again is new to the sink
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::lease::Lease;
use seriatim::once::{Ledger, Listing, Once, ProcessorId, Record, State};
use seriatim::store::StoreError;
use seriatim::{Epoch, Failure, FeedName, Partition, clock};
use tokio::sync::Mutex;

use crate::memory::Generation;

/// A record of a century outlives its feed.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The epoch of the first owner of a lease.
const FIRST: Epoch = Epoch(1);

/// Tells in which generation a partition is.
#[async_trait]
pub trait Generations: Send + Sync {
    /// The generation of a partition of the lease's feed: its own, or that in which a change was parked. The same for as long as
    /// the lease is held.
    async fn of(&self, lease: &Lease, partition: Partition) -> Result<Generation, Failure>;
}

/// Always the same one: for tests, and for feeds that are never rewound.
#[async_trait]
impl Generations for Generation {
    async fn of(&self, _: &Lease, _: Partition) -> Result<Generation, Failure> {
        Ok(*self)
    }
}

/// Generations in a ledger.
pub struct LedgerGenerations {
    ledger: Arc<dyn Ledger>,
    processor: String,
    /// As they were when the lease was first asked about.
    known: Mutex<HashMap<(Partition, Partition), (Epoch, Generation)>>,
}

impl LedgerGenerations {
    /// The generations of a feed's partitions.
    pub fn new(ledger: Arc<dyn Ledger>, feed: &FeedName) -> Self {
        LedgerGenerations { ledger, processor: format!("sink:{feed}"), known: Mutex::default() }
    }

    /// Begins another generation of a partition: its changes come again, and are new to the sink.
    pub async fn renew(&self, partition: Partition) -> Result<(), StoreError> {
        let records = self.records().await?;
        let Some(record) = records.iter().find(|record| record.signal.id.as_str() == partition.to_string())
        else {
            return Ok(());
        };
        let least = self.above(&records).await?;
        self.ledger.forget(&record.signal, &record.run).await?;
        self.drawn(partition, least).await.map(drop)
    }

    /// The feed is forgotten: one of the same name begins another generation.
    pub async fn renew_all(&self) -> Result<(), StoreError> {
        let records = self.records().await?;
        if records.is_empty() {
            return Ok(());
        }
        let least = self.above(&records).await?;
        for record in &records {
            self.ledger.forget(&record.signal, &record.run).await?;
        }
        // Kept for those that are drawn later, perhaps by a clock that is behind.
        self.drawn(Partition(0), least).await.map(drop)
    }

    /// All records of the feed.
    async fn records(&self) -> Result<Vec<Record>, StoreError> {
        let Ok(processor) = ProcessorId::new(&self.processor) else { return Ok(Vec::new()) };
        let listing = Listing { processor: Some(processor), ..Listing::default() };
        let (mut records, mut from) = (Vec::new(), None);
        loop {
            let page = self.ledger.list(&listing, from.as_ref()).await?;
            records.extend(page.records);
            from = page.next;
            if from.is_none() {
                return Ok(records);
            }
        }
    }

    /// A generation above all of these.
    async fn above(&self, records: &[Record]) -> Result<u64, StoreError> {
        let mut highest = 0;
        for record in records.iter().filter(|record| record.state == State::Completed) {
            let shown = self.ledger.show(&record.signal).await?;
            let drawn = shown.and_then(|shown| shown.result?.read::<u64>(&record.signal).ok());
            highest = highest.max(drawn.unwrap_or(0));
        }
        Ok(highest + 1)
    }

    /// The generation of a partition. A new one is above all others of the feed: objects come from one partition to another when
    /// their number changes.
    async fn found(&self, partition: Partition) -> Result<Generation, StoreError> {
        let records = self.records().await?;
        let is_there = records.iter().any(|record| record.signal.id.as_str() == partition.to_string());
        let least = if is_there { 0 } else { self.above(&records).await? };
        self.drawn(partition, least).await
    }

    /// The generation of a partition; where there is none, one is drawn that is at least this.
    async fn drawn(&self, partition: Partition, least: u64) -> Result<Generation, StoreError> {
        let once = Once::new(Arc::clone(&self.ledger), &self.processor)
            .max_processing_time(Duration::from_secs(10))
            .expires_after(FOR_EVER);
        let now = u64::try_from(clock::wall().as_millisecond()).unwrap_or(0).max(least);
        let drawn = once.protect(&partition.to_string(), || async move { Ok::<_, Infallible>(now) }).await;
        let drawn = drawn.map_err(|error| StoreError::unavailable("the ledger of generations", error))?;
        Ok(Generation(drawn.into_inner()))
    }
}

#[async_trait]
impl Generations for LedgerGenerations {
    async fn of(&self, lease: &Lease, partition: Partition) -> Result<Generation, Failure> {
        let place = (lease.id.partition, partition);
        // Calls of one lease run at the same time: one of them asks, and the others get the same.
        let mut known = self.known.lock().await;
        if let Some((_, generation)) = known.get(&place).filter(|(epoch, _)| *epoch == lease.epoch) {
            return Ok(*generation);
        }
        if lease.epoch == FIRST && partition == lease.id.partition {
            // Nobody had this lease before, so a record of it is from a feed of this name that was forgotten.
            self.renew(partition).await.map_err(Failure::target)?;
        }
        let generation = self.found(partition).await.map_err(Failure::target)?;
        known.insert(place, (lease.epoch, generation));
        Ok(generation)
    }
}

#[cfg(test)]
mod tests {
    use seriatim::Position;
    use seriatim::lease::LeaseId;
    use seriatim::name::SessionId;
    use seriatim::once::MemoryLedger;
    use seriatim::store::DoneAbove;

    use super::*;

    fn lease(epoch: u64) -> Lease {
        Lease {
            id: LeaseId { feed: FeedName::new("orders").unwrap(), partition: Partition(3) },
            session: SessionId::random(),
            epoch: Epoch(epoch),
            position: Position::number(0),
            done: DoneAbove::default(),
            part: None,
        }
    }

    #[tokio::test]
    async fn a_partition_has_one_generation_for_all_hosts_until_it_is_renewed() {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let feed = FeedName::new("orders").unwrap();
        let [one, other] = [0, 1].map(|_| LedgerGenerations::new(Arc::clone(&ledger), &feed));
        let first = one.of(&lease(2), Partition(3)).await.unwrap();
        assert_eq!(other.of(&lease(3), Partition(3)).await.unwrap(), first);
        other.renew(Partition(3)).await.unwrap();
        assert_eq!(one.of(&lease(2), Partition(3)).await.unwrap(), first, "as long as the lease is held");
        let second = one.of(&lease(4), Partition(3)).await.unwrap();
        assert!(second > first, "{second:?} after {first:?}");
        assert_eq!(other.of(&lease(5), Partition(3)).await.unwrap(), second);
    }

    #[tokio::test]
    async fn the_first_owner_of_a_lease_begins_a_generation_and_partitions_that_come_later_have_later_ones() {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let feed = FeedName::new("orders").unwrap();
        let host = || LedgerGenerations::new(Arc::clone(&ledger), &feed);
        let before = host().of(&lease(7), Partition(3)).await.unwrap();
        let anew = host().of(&lease(1), Partition(3)).await.unwrap();
        assert!(anew > before, "{anew:?} after {before:?}: the feed was forgotten and set up anew");
        assert_eq!(host().of(&lease(2), Partition(3)).await.unwrap(), anew);
        assert!(host().of(&lease(2), Partition(4)).await.unwrap() > anew);
        host().renew_all().await.unwrap();
        assert!(host().of(&lease(2), Partition(3)).await.unwrap() > anew);
    }
}
