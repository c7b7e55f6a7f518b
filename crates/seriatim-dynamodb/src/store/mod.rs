//! The store in one DynamoDB table, shared with a ledger or its own.
//!
//! A lease is one item, and what an owner does to it one conditional update that names its epoch. What is parked is more items
//! than one transaction takes: `plan` has them change together all the same. `keys` says where everything is.

mod feeds;
mod hosts;
mod keys;
mod lease;
mod object;
mod parked;
mod action;
mod pause;
mod plan;
mod purge;
mod requests;
mod saving;
mod taking;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use jiff::Timestamp;
use seriatim::change::{Change, Position};
use seriatim::clock;
use seriatim::lease::{HostView, Lease, LeaseView, Pulse, Sighting, View};
use seriatim::name::{FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::source::Blocker;
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarded, Discarding, EnsureError, JoinError, NotedAction,
    OnRewind, ParkedObject, ParkedPage, Paused, Release, Renewal, Session, Store, StoreError,
};
use seriatim::value::Key;

use crate::address::Address;
use crate::clock::ServiceClock;
use crate::error::explain;
use crate::table::Table;
use feeds::FeedItem;

pub use purge::Purged;

/// The store in a DynamoDB table, shared by any number of processes on any number of machines.
///
/// It cannot tell a dead process from a slow one, and wakes nobody: a dead host's leases are taken when they expire, and a hand-over
/// takes as long as the hosts' acquire interval.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seriatim::Store;
/// use seriatim_dynamodb::{Address, DynamoDbStore};
///
/// let store = DynamoDbStore::connect(&Address::from_url("dynamodb://seriatim?region=eu-west-1")?).await?;
/// assert_eq!(store.feeds().await?, []);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DynamoDbStore {
    client: Client,
    table: String,
    clock: ServiceClock,
    /// Feeds as they were last seen.
    known: Arc<Mutex<HashMap<FeedName, FeedItem>>>,
    /// So many writes at most go into one transaction; more are written down first.
    in_one_step: usize,
}

impl DynamoDbStore {
    /// Connects to the table, which has to be there: see [`Table`]. On a server on this machine it is made.
    pub async fn connect(address: &Address) -> Result<Self, StoreError> {
        if address.is_on_this_machine() {
            Table::new(address.client(), address.table()).make().await?;
        }
        DynamoDbStore::with_client(&address.client(), address.table()).await
    }

    /// The store in this table, through a client of one's own, with whatever credentials it has.
    pub async fn with_client(client: &Client, table: &str) -> Result<Self, StoreError> {
        let clock = ServiceClock::default();
        let client = Client::from_conf(client.config().to_builder().interceptor(clock.clone()).build());
        // The answer brings the service's time with it.
        let described = client.describe_table().table_name(table).send().await;
        described.map_err(|error| explain("looking for", table, error))?;
        let (table, known) = (table.to_owned(), Arc::default());
        Ok(DynamoDbStore { client, table, clock, known, in_one_step: usize::MAX })
    }

    /// What about the table can make it grow without end, with the remedy. A role that may not look is told of no risk.
    pub async fn risks(&self) -> Vec<Blocker> {
        match Table::new(self.client.clone(), &self.table).expires().await {
            Ok(false) => vec![Blocker {
                what: format!("DynamoDB removes no expired items of the table {}", self.table),
                remedy: "turn its time to live on, for the attribute expiresOn; `seriatim once init` does it"
                    .to_owned(),
                ..Blocker::default()
            }],
            Ok(true) | Err(_) => Vec::new(),
        }
    }

    /// Has even a few writes written down first, as many are: for tests of that way.
    #[doc(hidden)]
    pub fn in_steps_of(self, writes: usize) -> Self {
        DynamoDbStore { in_one_step: writes, ..self }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<FeedName, FeedItem>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn know(&self, name: &FeedName, feed: Option<&FeedItem>) {
        match feed {
            Some(feed) => _ = self.known().insert(name.clone(), feed.clone()),
            None => _ = self.known().remove(name),
        }
    }

    /// Milliseconds since 1970, by the service's clock where it tells; for people to read.
    fn time(&self) -> i64 {
        self.clock.now().map_or_else(|| clock::wall().as_millisecond(), |now| now.earliest)
    }
}

fn timestamp(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}

#[async_trait]
impl Store for DynamoDbStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.who().await
    }

    async fn older_hosts(&self, silent: &[(SessionId, u64)]) -> Result<Vec<HostView>, StoreError> {
        self.retire_older(silent).await
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        self.enter(Session::new(host, feeds, expire), replacing).await
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        self.exit(session).await
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        self.make(feed, partitions, start).await
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        Ok(self.all_feeds().await?.into_iter().map(|(name, _)| name).collect())
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        Ok(Pulse { mark: self.mark().await?, hosts: self.all_hosts().await? })
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        // The mark first: what moves it from now on shows in the next one.
        let mark = self.mark().await?;
        let mut leases = Vec::new();
        for (name, feed) in self.all_feeds().await? {
            if feeds.contains(&name) {
                leases.extend(self.leases_of(&feed).await?);
            }
        }
        // The hosts last: whoever holds a lease that was seen had joined before.
        Ok(View { mark, leases, hosts: self.all_hosts().await? })
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        self.take_all(session, seen).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        self.renew_host(session).await
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        self.ask_for_all(seen, to).await
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        self.give_up_all(releases).await
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.save(lease, checkpoint).await
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        self.set_back(seen, position, parked == OnRewind::DropParked).await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        let objects = self.objects(feed, partition).await?;
        Ok(objects.into_iter().map(|object| object.shown(feed)).collect())
    }

    async fn parked_page(
        &self,
        feed: &FeedName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ParkedPage, StoreError> {
        self.page_of_objects(feed, after, limit).await
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        Ok(self.one_object(feed, key).await?.map(|object| object.shown(feed)))
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        self.changes_of(feed, key, limit).await
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        self.try_again(feed, key).await
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        self.drop_parked(feed, key, what, reason).await
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        self.discards(feed, limit).await
    }

    fn notes_actions(&self) -> bool {
        true
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        self.add_action(text).await
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        self.latest_actions(limit).await
    }

    fn pauses(&self) -> bool {
        true
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.add_pause(feed).await
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        self.remove_pause(feed).await
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        self.pauses_now().await
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        self.remove_pause(feed).await?;
        self.end(feed).await
    }
}
