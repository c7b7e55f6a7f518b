//! The store as hosts reach it: the library's own store in memory, behind a network that fails.
//!
//! What took effect is written down here, in the step in which it did. The deliberate bugs of stores are built in here too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::{Change, Position};
use seriatim::lease::{Lease, LeaseId, LeaseView, Liveness, Pulse, Reshape, Sighting, View};
use seriatim::name::{FeedName, HostName, Partition, SessionId, StoreId};
use seriatim::simulation::{Mutant, has};
use seriatim::store::{
    Checkpoint, CheckpointError, Discard, Discarded, Discarding, EnsureError, JoinError, MemoryStore,
    OnRewind, ParkedObject, Release, Renewal, Session, Store, StoreError,
};
use seriatim::value::Key;

use super::history::What;
use super::scheduler::Machine;
use super::world::{Link, here, record};

/// The number in the name of a feed.
pub fn feed_number(feed: &FeedName) -> u32 {
    feed.as_str().trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(0)
}

/// A position as a number: what checkers compare.
pub fn place(position: &Position) -> u64 {
    position.as_number().unwrap_or(0)
}

/// What all hosts share.
#[derive(Clone)]
pub struct ModelStore {
    /// The store itself, without faults.
    pub inner: MemoryStore,
    sessions: Arc<Mutex<BTreeMap<SessionId, Machine>>>,
    tells_dead: bool,
}

impl ModelStore {
    /// An empty store. One that `tells_dead` knows when a process has died.
    pub fn new(tells_dead: bool) -> Self {
        ModelStore { inner: MemoryStore::new(), sessions: Arc::default(), tells_dead }
    }

    fn liveness(&self, session: &SessionId) -> Liveness {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.get(session) {
            _ if !self.tells_dead => Liveness::Unknown,
            Some(machine) if here().scheduler.has_crashed(*machine) => Liveness::Dead,
            Some(_) => Liveness::Alive,
            None => Liveness::Unknown,
        }
    }

    async fn lease(&self, id: &LeaseId) -> Option<LeaseView> {
        let view = self.inner.view(std::slice::from_ref(&id.feed)).await.ok()?;
        view.leases.into_iter().find(|lease| lease.id == *id)
    }

    /// The lease as its present owner would hold it: for stores that do not look at the epoch.
    async fn whoever_owns(&self, lease: &Lease) -> Lease {
        let Some(now) = self.lease(&lease.id).await else { return lease.clone() };
        let session = now.owner.map_or_else(|| lease.session.clone(), |owner| owner.session);
        Lease { epoch: now.epoch, session, ..lease.clone() }
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
        machine: Machine,
    ) -> Result<Session, JoinError> {
        let mut joined = self.inner.join(host, feeds, expire, replacing).await;
        if let Err(JoinError::NameTaken { session, host: taken, beat, expire: its, .. }) = joined {
            let liveness = self.liveness(&session);
            joined = match liveness {
                Liveness::Dead => self.inner.join(host, feeds, expire, Some((&session, beat))).await,
                _ => Err(JoinError::NameTaken { session, host: taken, beat, expire: its, liveness }),
            };
        }
        let session = joined?;
        here().record_on(machine, What::Joined { session: session.id.to_string() });
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session.id.clone(), machine);
        Ok(session)
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        let mut view = self.inner.view(feeds).await?;
        view.hosts.iter_mut().for_each(|host| host.liveness = self.liveness(&host.session));
        Ok(view)
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        let mut pulse = self.inner.pulse().await?;
        pulse.hosts.iter_mut().for_each(|host| host.liveness = self.liveness(&host.session));
        Ok(pulse)
    }

    /// What is compared when a lease is taken.
    async fn compared(&self, seen: &Sighting) -> (Option<LeaseView>, Sighting) {
        let Ok(view) = self.inner.view(std::slice::from_ref(&seen.lease.id.feed)).await else {
            return (None, seen.clone());
        };
        let now = view.leases.iter().find(|lease| lease.id == seen.lease.id).cloned();
        let beat = now.as_ref().and_then(|now| view.sighting(now).beat);
        let seen = match &now {
            Some(now) if has(Mutant::AcquireWithoutCompare) => Sighting { lease: now.clone(), beat },
            Some(_) if has(Mutant::AcquireWithoutBeat) => Sighting { beat, ..seen.clone() },
            _ => seen.clone(),
        };
        (now, seen)
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
        machine: Machine,
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let mut leases = Vec::new();
        for seen in seen {
            leases.push(self.acquire(session, seen, machine).await?);
        }
        Ok(leases)
    }

    async fn acquire(
        &self,
        session: &Session,
        seen: &Sighting,
        machine: Machine,
    ) -> Result<Option<Lease>, StoreError> {
        let (before, seen) = self.compared(seen).await;
        let lease = self.inner.acquire(session, &seen).await?;
        if let (Some(lease), Some(before)) = (&lease, before)
            && before.epoch != lease.epoch
        {
            let from = before.owner.map(|owner| owner.session.to_string());
            let (feed, partition) = (feed_number(&lease.id.feed), lease.id.partition.0);
            here().record_on(
                machine,
                What::Acquired { feed, partition, epoch: lease.epoch.0, from, seen: seen.lease.epoch.0 },
            );
        }
        Ok(lease)
    }

    async fn renew(&self, session: &Session, machine: Machine) -> Result<Renewal, StoreError> {
        let renewal = self.inner.renew(session).await?;
        if renewal == Renewal::Kept {
            here().record_on(machine, What::Renewed { session: session.id.to_string() });
        }
        Ok(renewal)
    }

    async fn release_all(&self, releases: &[Release], machine: Machine) -> Result<(), StoreError> {
        for Release { lease, keep_for } in releases {
            self.release(lease, keep_for.as_ref(), machine).await?;
        }
        Ok(())
    }

    async fn release(
        &self,
        lease: &Lease,
        keep_for: Option<&HostName>,
        machine: Machine,
    ) -> Result<(), StoreError> {
        let held =
            if has(Mutant::ReleaseWithoutEpoch) { self.whoever_owns(lease).await } else { lease.clone() };
        let owned = self.lease(&held.id).await.is_some_and(|now| {
            now.epoch == held.epoch && now.owner.is_some_and(|owner| owner.session == held.session)
        });
        self.inner.release(&held, keep_for).await?;
        if owned {
            let (feed, partition) = (feed_number(&lease.id.feed), lease.id.partition.0);
            here().record_on(machine, What::Released { feed, partition, epoch: lease.epoch.0 });
        }
        Ok(())
    }

    async fn request_all(
        &self,
        seen: &[LeaseView],
        to: &HostName,
        machine: Machine,
    ) -> Result<Vec<bool>, StoreError> {
        let asked = self.inner.request_all(seen, to).await?;
        for (seen, _) in seen.iter().zip(&asked).filter(|(_, asked)| **asked) {
            let (feed, partition) = (feed_number(&seen.id.feed), seen.id.partition.0);
            here().record_on(machine, What::AskedFor { feed, partition });
        }
        Ok(asked)
    }

    /// Writes a checkpoint, in one step with an effect on these changes.
    pub async fn checkpoint(
        &self,
        lease: &Lease,
        checkpoint: &Checkpoint,
        effect: Option<&[u64]>,
        machine: Machine,
    ) -> Result<(), CheckpointError> {
        let held =
            if has(Mutant::CheckpointWithoutEpoch) { self.whoever_owns(lease).await } else { lease.clone() };
        let (feed, partition, epoch) = (feed_number(&lease.id.feed), lease.id.partition.0, lease.epoch.0);
        let mut now = checkpoint.clone();
        if has(Mutant::ParkInASecondStep) {
            now.parked.clear();
        }
        let written = self.inner.checkpoint(&held, &now).await;
        match &written {
            Err(CheckpointError::Fenced { .. }) => {
                here().record_on(machine, What::Fenced { feed, partition, epoch });
            }
            Err(_) => {}
            Ok(()) => {
                let world = here();
                if let Some(changes) = effect.filter(|changes| !changes.is_empty()) {
                    let changes = changes.to_vec();
                    world.record_on(machine, What::Effect { feed, partition, epoch, changes });
                }
                let unparked = now.unparked.iter().flat_map(|done| done.ids.clone()).collect();
                let parked = now.parked.iter().map(|parking| parking.change.id).collect();
                let position = place(&now.position);
                world.record_on(
                    machine,
                    What::Checkpointed { feed, partition, epoch, position, unparked, parked },
                );
            }
        }
        written?;
        if has(Mutant::ParkInASecondStep) && !checkpoint.parked.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let rest = Checkpoint { unparked: Vec::new(), ..checkpoint.clone() };
            self.inner.checkpoint(&held, &rest).await?;
            let parked = rest.parked.iter().map(|parking| parking.change.id).collect();
            let (position, unparked) = (place(&rest.position), Vec::new());
            here().record_on(
                machine,
                What::Checkpointed { feed, partition, epoch, position, unparked, parked },
            );
        }
        Ok(())
    }

    /// A person sets a partition back.
    pub async fn rewind(&self, seen: &LeaseView, to: u64, parked: OnRewind) -> Result<(), StoreError> {
        let (of, partition) = (&seen.id.feed, seen.id.partition);
        let mut dropped = Vec::new();
        if parked == OnRewind::DropParked {
            for object in self.inner.parked(of, Some(partition)).await? {
                let kept = self.inner.parked_changes(of, &object.key, usize::MAX).await?;
                dropped.extend(kept.iter().map(|change| change.id));
            }
        }
        if self.inner.rewind(seen, &Position::number(to), parked).await? {
            let (feed, epoch) = (feed_number(of), seen.epoch.next().0);
            record(What::Rewound { feed, partition: partition.0, epoch, position: to, dropped });
        }
        Ok(())
    }

    /// A person drops the first change of a parked object, or all of them.
    pub async fn discard(&self, feed: &FeedName, key: &Key, what: Discard) -> Result<(), StoreError> {
        let kept = self.inner.parked_changes(feed, key, usize::MAX).await?;
        if let Discarding::Done(count) = self.inner.discard_parked(feed, key, what, "a whim").await? {
            let changes = kept.iter().take(count as usize).map(|change| change.id).collect();
            record(What::Discarded { feed: feed_number(feed), changes });
        }
        Ok(())
    }
}

/// The store as one life of a host reaches it.
#[derive(Clone)]
pub struct SimStore {
    /// What all hosts share.
    pub model: ModelStore,
    /// The way to it.
    pub link: Link,
}

/// Makes a call with copies of its arguments: it may take effect after its caller is gone.
macro_rules! call {
    ($self:ident, $name:literal, |$model:ident $(, $argument:ident)*| $effect:expr) => {{
        let $model = $self.model.clone();
        $(let $argument = $argument.to_owned();)*
        $self.link.call($name, async move { $effect.await }).await
    }};
}

#[async_trait]
impl Store for SimStore {
    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.model.inner.identity().await
    }

    async fn join(
        &self,
        host: &HostName,
        feeds: &[FeedName],
        expire: Duration,
        replacing: Option<(&SessionId, u64)>,
    ) -> Result<Session, JoinError> {
        let (replacing, machine) =
            (replacing.map(|(session, beat)| (session.clone(), beat)), self.link.machine);
        call!(self, "join", |model, host, feeds| model.join(
            &host,
            &feeds,
            expire,
            replacing.as_ref().map(|(session, beat)| (session, *beat)),
            machine
        ))
    }

    async fn leave(&self, session: &Session) -> Result<(), StoreError> {
        call!(self, "leave", |model, session| model.inner.leave(&session))
    }

    async fn ensure(&self, feed: &FeedName, partitions: u32, start: &Position) -> Result<(), EnsureError> {
        call!(self, "ensure", |model, feed, start| model.inner.ensure(&feed, partitions, &start))
    }

    async fn feeds(&self) -> Result<Vec<FeedName>, StoreError> {
        self.model.inner.feeds().await
    }

    async fn view(&self, feeds: &[FeedName]) -> Result<View, StoreError> {
        call!(self, "view", |model, feeds| model.view(&feeds))
    }

    async fn pulse(&self) -> Result<Pulse, StoreError> {
        call!(self, "view", |model| model.pulse())
    }

    async fn acquire_all(
        &self,
        session: &Session,
        seen: &[Sighting],
    ) -> Result<Vec<Option<Lease>>, StoreError> {
        let machine = self.link.machine;
        call!(self, "acquire", |model, session, seen| model.acquire_all(&session, &seen, machine))
    }

    async fn renew(&self, session: &Session) -> Result<Renewal, StoreError> {
        let machine = self.link.machine;
        call!(self, "renew", |model, session| model.renew(&session, machine))
    }

    async fn request_all(&self, seen: &[LeaseView], to: &HostName) -> Result<Vec<bool>, StoreError> {
        let machine = self.link.machine;
        call!(self, "request hand-over", |model, seen, to| model.request_all(&seen, &to, machine))
    }

    async fn release_all(&self, releases: &[Release]) -> Result<(), StoreError> {
        let machine = self.link.machine;
        call!(self, "release", |model, releases| model.release_all(&releases, machine))
    }

    async fn checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let machine = self.link.machine;
        call!(self, "checkpoint", |model, lease, checkpoint| model.checkpoint(
            &lease,
            &checkpoint,
            None,
            machine
        ))
    }

    async fn rewind(
        &self,
        seen: &LeaseView,
        position: &Position,
        parked: OnRewind,
    ) -> Result<bool, StoreError> {
        self.model.inner.rewind(seen, position, parked).await
    }

    async fn parked(
        &self,
        feed: &FeedName,
        partition: Option<Partition>,
    ) -> Result<Vec<ParkedObject>, StoreError> {
        call!(self, "list parked", |model, feed| model.inner.parked(&feed, partition))
    }

    async fn parked_object(&self, feed: &FeedName, key: &Key) -> Result<Option<ParkedObject>, StoreError> {
        call!(self, "look at parked", |model, feed, key| model.inner.parked_object(&feed, &key))
    }

    async fn parked_changes(
        &self,
        feed: &FeedName,
        key: &Key,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        let mut changes =
            call!(self, "read parked", |model, feed, key| model.inner.parked_changes(&feed, &key, limit))?;
        if has(Mutant::ParkedOutOfOrder) {
            changes.reverse();
        }
        Ok(changes)
    }

    async fn retry_parked(&self, feed: &FeedName, key: Option<&Key>) -> Result<u64, StoreError> {
        self.model.inner.retry_parked(feed, key).await
    }

    async fn discard_parked(
        &self,
        feed: &FeedName,
        key: &Key,
        what: Discard,
        reason: &str,
    ) -> Result<Discarding, StoreError> {
        self.model.inner.discard_parked(feed, key, what, reason).await
    }

    async fn discarded(&self, feed: &FeedName, limit: usize) -> Result<Vec<Discarded>, StoreError> {
        self.model.inner.discarded(feed, limit).await
    }

    fn keeps_chains(&self) -> bool {
        self.model.inner.keeps_chains()
    }

    async fn chained(&self, feed: &FeedName, keys: &[Key]) -> Result<Vec<Option<u64>>, StoreError> {
        call!(self, "look at the chain", |model, feed, keys| model.inner.chained(&feed, &keys))
    }

    fn reshapes(&self) -> bool {
        self.model.inner.reshapes()
    }

    async fn reshape(
        &self,
        feed: &FeedName,
        seen: &[LeaseView],
        reshape: &Reshape,
    ) -> Result<bool, StoreError> {
        call!(self, "reshape", |model, feed, seen, reshape| model.inner.reshape(&feed, &seen, &reshape))
    }

    async fn adopt_parked(&self, lease: &Lease, keys: &[Key]) -> Result<(), CheckpointError> {
        call!(self, "adopt", |model, lease, keys| model.inner.adopt_parked(&lease, &keys))
    }

    async fn forget(&self, feed: &FeedName) -> Result<(), StoreError> {
        self.model.inner.forget(feed).await
    }
}
