//! A store in memory: for tests and simulation, and as the plainest reading of the contract.

mod news;
mod parked;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    ACTIONS_KEPT, Checkpoint, CheckpointError, Discard, Discarded, Discarding, DoneAbove, EnsureError,
    JoinError, NotedAction, OnRewind, ParkedObject, Paused, Release, Renewal, Session, Store, StoreError,
};
use crate::change::{Change, Position};
use crate::clock;
use crate::lease::{
    HostView, Lease, LeaseId, LeaseView, Liveness, Mark, Owner, Part, Pulse, Reshape, Sighting, View,
};
use crate::name::{Epoch, FeedName, HostName, Partition, SessionId, StoreId};
use crate::order::EventId;
use crate::value::Key;
use news::News;
use parked::Parked;

/// Keeps everything in memory; clones share it. It dies with the process, and so do its checkpoints.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    id: StoreId,
    state: Arc<Mutex<State>>,
    news: News,
}

#[derive(Debug, Default)]
struct State {
    hosts: BTreeMap<HostName, HostView>,
    leases: BTreeMap<LeaseId, LeaseView>,
    /// What is handled beyond the positions of leases.
    done: BTreeMap<LeaseId, DoneAbove>,
    parked: Parked,
    /// The last change of each object that a checkpoint has passed.
    chained: BTreeMap<(FeedName, String), u64>,
    /// What people did, latest first.
    actions: VecDeque<NotedAction>,
    /// Since when feeds are paused.
    paused: BTreeMap<FeedName, Timestamp>,
    /// Moves with everything that a [`Mark`] tells.
    moved: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore { id: StoreId::random(), state: Arc::default(), news: News::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic, so a poisoned lock is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lease_as_seen(&mut self, seen: &LeaseView) -> Option<&mut LeaseView> {
        self.leases.get_mut(&seen.id).filter(|lease| lease.owner == seen.owner && lease.epoch == seen.epoch)
    }

    fn lease_of(&mut self, held: &Lease) -> Option<&mut LeaseView> {
        let mine = |lease: &&mut LeaseView| {
            lease.epoch == held.epoch
                && lease.owner.as_ref().is_some_and(|owner| owner.session == held.session)
        };
        self.leases.get_mut(&held.id).filter(mine)
    }

    fn mark(&self) -> Mark {
        Mark(self.moved.to_string())
    }

    fn hosts(&self) -> Vec<HostView> {
        self.hosts.values().cloned().collect()
    }

    /// Whether the owner of a lease has given no sign of life since it was seen. The taker's own does not count.
    fn is_silent_since(&self, seen: &Sighting, taker: &SessionId) -> bool {
        let owner = seen.lease.owner.as_ref().filter(|owner| owner.session != *taker);
        let host = owner.and_then(|owner| self.hosts.values().find(|host| host.session == owner.session));
        host.is_none_or(|host| Some(host.beat) == seen.beat)
    }

    fn acquire(&mut self, session: &Session, seen: &Sighting) -> Option<Lease> {
        let me = Owner { host: session.host.clone(), session: session.id.clone() };
        if !self.hosts.values().any(|host| host.session == session.id) {
            return None;
        }
        let silent = self.is_silent_since(seen, &session.id);
        let seen = &seen.lease;
        let done = self.done.get(&seen.id).cloned().unwrap_or_default();
        let taken = |lease: &LeaseView| Lease {
            id: lease.id.clone(),
            session: session.id.clone(),
            epoch: lease.epoch,
            position: lease.position.clone(),
            done,
            part: lease.part.clone(),
        };
        let as_seen = |lease: &&mut LeaseView| silent && lease.version == seen.version;
        if let Some(lease) = self.lease_as_seen(seen).filter(as_seen) {
            lease.owner = Some(me);
            lease.epoch = lease.epoch.next();
            lease.version += 1;
            lease.hand_over_to = None;
            let taken = taken(lease);
            self.moved += 1;
            return Some(taken);
        }
        // The answer to an earlier call was lost: it is mine already.
        let mine = |lease: &&LeaseView| lease.owner.as_ref() == Some(&me) && lease.epoch == seen.epoch.next();
        self.leases.get(&seen.id).filter(mine).map(taken)
    }

    fn request(&mut self, seen: &LeaseView, to: &HostName) -> bool {
        let Some(lease) = self.lease_as_seen(seen) else { return false };
        if lease.hand_over_to.as_ref().is_some_and(|other| other != to) {
            return false;
        }
        lease.hand_over_to = Some(to.clone());
        self.moved += 1;
        true
    }

    fn release(&mut self, Release { lease, keep_for }: &Release) {
        if let Some(held) = self.lease_of(lease) {
            held.owner = None;
            held.version += 1;
            held.hand_over_to = keep_for.clone();
            self.moved += 1;
        }
    }

    fn free_leases_of(&mut self, session: &SessionId) {
        self.moved += 1;
        for lease in self.leases.values_mut() {
            if lease.owner.as_ref().is_some_and(|owner| owner.session == *session) {
                lease.owner = None;
                lease.version += 1;
            }
        }
    }

    /// Changes which leases a feed has, if they are as they were seen.
    fn reshape(&mut self, feed: &FeedName, seen: &[LeaseView], reshape: &Reshape) -> bool {
        let id = |partition: Partition| LeaseId { feed: feed.clone(), partition };
        let now: Vec<&LeaseView> = self.leases.values().filter(|lease| lease.id.feed == *feed).collect();
        let same = |(now, seen): (&&LeaseView, &LeaseView)| now.id == seen.id && now.part == seen.part;
        let is_free = |partition: &Partition| {
            self.leases.get(&id(*partition)).is_some_and(|lease| lease.owner.is_none())
        };
        if now.len() != seen.len() || !now.iter().zip(seen).all(same) || !reshape.free.iter().all(is_free) {
            return false;
        }
        for (partition, part) in &reshape.marked {
            if let Some(lease) = self.leases.get_mut(&id(*partition)) {
                lease.part = Some(part.clone());
                lease.version += 1;
            }
        }
        for partition in &reshape.gone {
            self.leases.remove(&id(*partition));
            self.done.remove(&id(*partition));
        }
        for (partition, part, start) in &reshape.born {
            let fresh = fresh(id(*partition), start, Some(part.clone()));
            self.leases.insert(fresh.id.clone(), fresh);
        }
        self.moved += 1;
        true
    }

    /// Lets the owners of these partitions know that somebody asked for something.
    fn ask(&mut self, feed: &FeedName, partitions: impl IntoIterator<Item = Partition>) {
        for partition in partitions {
            if let Some(lease) = self.leases.get_mut(&LeaseId { feed: feed.clone(), partition }) {
                lease.asked += 1;
                self.moved += 1;
            }
        }
    }
}

/// A lease that never had an owner.
fn fresh(id: LeaseId, start: &Position, part: Option<Part>) -> LeaseView {
    LeaseView {
        id,
        owner: None,
        epoch: Epoch(0),
        version: 0,
        position: start.clone(),
        hand_over_to: None,
        asked: 0,
        part,
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        Ok(self.id.clone())
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let mut state = self.state();
        if let Some(holder) = state.hosts.get(host).cloned() {
            if replacing != Some((&holder.session, holder.beat)) {
                let HostView { name: host, session, beat, expire, liveness, .. } = holder;
                return Err(JoinError::NameTaken { host, session, beat, expire, liveness });
            }
            state.free_leases_of(&holder.session);
        }
        let session = Session::new(host, feeds, expire);
        let view = HostView {
            name: host.clone(),
            session: session.id.clone(),
            feeds: feeds.to_vec(),
            beat: 0,
            expire,
            progress: 0,
            seen_at: clock::wall(),
            troubles: Vec::new(),
            liveness: Liveness::Unknown,
        };
        state.hosts.insert(host.clone(), view);
        Ok(session)
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.hosts.get(&session.host).is_some_and(|host| host.session == session.id) {
            state.hosts.remove(&session.host);
        }
        state.free_leases_of(&session.id);
        self.news.tell();
        Ok(())
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        let mut state = self.state();
        let of_feed = state.leases.values().filter(|lease| lease.id.feed == *feed);
        if of_feed.clone().any(|lease| lease.part.is_some()) {
            return Ok(());
        }
        let existing = of_feed.count() as u32;
        if existing != 0 && existing != partitions {
            return Err(EnsureError::PartitionCount { feed: feed.clone(), existing, wanted: partitions });
        }
        for partition in 0..partitions {
            let id = LeaseId { feed: feed.clone(), partition: Partition(partition) };
            state.leases.entry(id.clone()).or_insert_with(|| fresh(id, start, None));
        }
        state.moved += u64::from(existing == 0);
        Ok(())
    }

    async fn wait(&self, timeout: Duration) {
        self.news.wait(timeout).await;
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        let mut feeds: Vec<FeedName> = self.state().leases.keys().map(|id| id.feed.clone()).collect();
        feeds.dedup();
        Ok(feeds)
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        self.news.note();
        let state = self.state();
        Ok(Pulse { mark: state.mark(), hosts: state.hosts() })
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        self.news.note();
        let state = self.state();
        let asked_for = |lease: &&LeaseView| feeds.contains(&lease.id.feed);
        let leases = state.leases.values().filter(asked_for).cloned().collect();
        Ok(View { mark: state.mark(), leases, hosts: state.hosts() })
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let mut state = self.state();
        Ok(seen.iter().map(|seen| state.acquire(session, seen)).collect())
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        let mut state = self.state();
        let host = state.hosts.get_mut(&session.host).filter(|host| host.session == session.id);
        let Some(host) = host else { return Ok(Renewal::Gone) };
        host.beat += 1;
        host.feeds = session.feeds.clone();
        host.troubles = session.troubles.clone();
        host.progress = session.progress;
        host.seen_at = clock::wall();
        Ok(Renewal::Kept)
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        let mut state = self.state();
        let asked: Vec<bool> = seen.iter().map(|seen| state.request(seen, to)).collect();
        if asked.contains(&true) {
            self.news.tell();
        }
        Ok(asked)
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        let mut state = self.state();
        let before = state.moved;
        releases.iter().for_each(|release| state.release(release));
        if state.moved != before {
            self.news.tell();
        }
        Ok(())
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let mut state = self.state();
        match state.lease_of(lease) {
            Some(held) => {
                held.position = checkpoint.position.clone();
                held.version += 1;
            }
            None => {
                let by = state.leases.get(&lease.id).map_or(Epoch(0), |lease| lease.epoch);
                return Err(CheckpointError::Fenced { by });
            }
        }
        state.done.insert(lease.id.clone(), checkpoint.done.clone());
        checkpoint.resumed.iter().for_each(|key| state.parked.resume(&lease.id.feed, key));
        checkpoint.unparked.iter().for_each(|done| state.parked.unpark(&lease.id.feed, done));
        checkpoint.parked.iter().for_each(|parking| state.parked.park(&lease.id, parking));
        for chained in &checkpoint.chained {
            let object = (lease.id.feed.clone(), chained.key.identity());
            if EventId(chained.id).is_existing() {
                state.chained.entry(object).or_insert(chained.id);
            } else {
                state.chained.insert(object, chained.id);
            }
        }
        Ok(())
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(lease) = state.lease_as_seen(seen).filter(|lease| lease.version == seen.version) else {
            return Ok(false);
        };
        lease.owner = None;
        lease.hand_over_to = None;
        lease.epoch = lease.epoch.next();
        lease.version += 1;
        lease.position = position.clone();
        state.moved += 1;
        state.done.remove(&seen.id);
        if parked == OnRewind::DropParked {
            state.parked.drop_partition(&seen.id);
        }
        self.news.tell();
        Ok(true)
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        Ok(self.state().parked.list(feed, partition))
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        Ok(self.state().parked.object(feed, key))
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        Ok(self.state().parked.changes(feed, key, limit))
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        let mut state = self.state();
        let partitions = state.parked.retry(feed, key);
        let marked = partitions.len() as u64;
        state.ask(feed, partitions);
        self.news.tell();
        Ok(marked)
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        let mut state = self.state();
        let State { parked, leases, .. } = &mut *state;
        let owned = |partition| {
            let id = LeaseId { feed: feed.clone(), partition };
            leases.get(&id).is_some_and(|lease| lease.owner.is_some())
        };
        let (discarding, partition) = parked.discard(feed, key, what, reason, owned);
        state.ask(feed, partition);
        self.news.tell();
        Ok(discarding)
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        Ok(self.state().parked.discarded(feed, limit))
    }

    fn keeps_chains(&self) -> bool {
        true
    }

    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        let state = self.state();
        let last = |key: &Key| state.chained.get(&(feed.clone(), key.identity())).copied();
        Ok(keys.iter().map(last).collect())
    }

    fn reshapes(&self) -> bool {
        true
    }

    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let done = state.reshape(feed, seen, reshape);
        self.news.tell();
        Ok(done)
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        let mut state = self.state();
        if state.lease_of(lease).is_none() {
            let by = state.leases.get(&lease.id).map_or(Epoch(0), |lease| lease.epoch);
            return Err(CheckpointError::Fenced { by });
        }
        state.parked.adopt(&lease.id, keys);
        Ok(())
    }

    fn notes_actions(&self) -> bool {
        true
    }

    async fn note_action(&self, text: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        state.actions.push_front(NotedAction { at: clock::wall(), text: text.to_owned() });
        state.actions.truncate(ACTIONS_KEPT);
        Ok(())
    }

    async fn actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        Ok(self.state().actions.iter().take(limit).cloned().collect())
    }

    fn pauses(&self) -> bool {
        true
    }

    async fn pause(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let (mut state, mut is_new) = (self.state(), false);
        state.paused.entry(feed.clone()).or_insert_with(|| {
            is_new = true;
            clock::wall()
        });
        state.moved += u64::from(is_new);
        Ok(is_new)
    }

    async fn resume(&self, feed: &FeedName) -> Result<bool, StoreError> {
        let mut state = self.state();
        let was_paused = state.paused.remove(feed).is_some();
        state.moved += u64::from(was_paused);
        Ok(was_paused)
    }

    async fn paused(&self) -> Result<Vec<Paused>, StoreError> {
        let state = self.state();
        Ok(state.paused.iter().map(|(feed, since)| Paused { feed: feed.clone(), since: *since }).collect())
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        let mut state = self.state();
        state.paused.remove(feed);
        state.leases.retain(|id, _| id.feed != *feed);
        state.done.retain(|id, _| id.feed != *feed);
        state.moved += 1;
        state.parked.forget(feed);
        state.chained.retain(|(of, _), _| of != feed);
        Ok(())
    }
}
