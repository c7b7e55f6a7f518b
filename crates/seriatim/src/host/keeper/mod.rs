//! The keeper: keeps this host's leases, and starts and closes a partition for each.
//!
//! ```text
//!   renew ── one sign of life for all leases, every `renew`
//!   round ── look ──▶ balance ──▶ acquire and ask, in bulk ──▶ tell; every `acquire`, and when the store has news
//! ```
//!
//! While nothing changes hands, a look reads the hosts and a mark, not the leases. Whatever a round decides to do, it decides
//! once more on leases that were read just then.

mod closing;
mod looking;
mod owned;
mod reshaping;
mod returning;
mod telling;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::observer::{CloseReason, Observers};
use super::partition::{Closed, Halt, News};
use super::pausing::Pausing;
use super::pruning::Pruning;
use super::{FeedRuntime, HostError, LeaseSettings, Until};
use crate::clock;
use crate::lease::{Action, Joined, Judged, JudgedLease, LeaseId, LeaseView, Sighting, Trust, Watch};
use crate::name::{FeedName, StoreId};
use crate::store::{ParkedState, Release, Renewal, Session, Store, StoreError};
use crate::tasks::{self, JoinSet};
use looking::Sight;
use owned::Owned;
use reshaping::has_ended;

/// However often the store says that something may have changed, the keeper looks no more often than this.
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// So many leases are taken or asked for in one call at most: in between, the host can renew.
const AT_ONCE: usize = 100;

/// How much longer than its handlers the store may take when a host closes.
const CLOSE_STORE_WITHIN: Duration = Duration::from_secs(5);

/// What the keeper has to deal with.
enum Event {
    Ended(Result<(LeaseId, Closed), tokio::task::JoinError>),
    CaughtUp(LeaseId),
    Renew,
    Round,
}

/// How leases are kept, and for how long.
pub(super) struct Keeping {
    pub leases: LeaseSettings,
    /// How many leases this host may have.
    pub most: Option<u32>,
    pub until: Until,
    pub close_within: Duration,
    /// Who the store was when the feeds were opened.
    pub store: StoreId,
    pub pausing: Pausing,
}

/// A lease that is to be given up.
pub(super) struct Abandoned {
    release: Release,
    /// Not before this: its handler hung and was cut off, and what it had begun may still go on elsewhere.
    not_before: Option<Instant>,
}

pub(super) struct Keeper {
    store: Arc<dyn Store>,
    identity: StoreId,
    session: Session,
    feeds: BTreeMap<FeedName, Arc<FeedRuntime>>,
    stopped: Vec<(FeedName, String)>,
    settings: LeaseSettings,
    most: Option<u32>,
    until: Until,
    close_within: Duration,
    watch: Watch,
    owned: BTreeMap<LeaseId, Owned>,
    partitions: JoinSet<(LeaseId, Closed)>,
    trust: Trust,
    news: (mpsc::UnboundedSender<News>, mpsc::UnboundedReceiver<News>),
    caught_up: HashSet<LeaseId>,
    pruning: Pruning,
    renew_at: Instant,
    /// When to look once more: whoever got what it asked for may need more.
    look_at: Option<Instant>,
    /// How many partitions of each feed it said it owns.
    told: BTreeMap<FeedName, usize>,
    /// What was last seen of the leases.
    sight: Sight,
    pausing: Pausing,
    /// Leases that this host's session still has in the store and that it does not run any more, until they are given up. As
    /// long as the host lives, nobody else can take them.
    abandoned: BTreeMap<LeaseId, Abandoned>,
    /// Feeds whose checkpoints the store may have lost: it had forgotten this host.
    orphaned: BTreeSet<FeedName>,
    /// Another process has taken this host's name: it counts for nothing any more.
    replaced: bool,
    /// Everything is caught up; only for a host that then ends.
    done: bool,
    is_closing: bool,
    observers: Arc<Observers>,
}

impl Keeper {
    pub fn new(
        store: Arc<dyn Store>,
        joined: Joined<Session>,
        feeds: Vec<Arc<FeedRuntime>>,
        keeping: Keeping,
        observers: Arc<Observers>,
    ) -> Self {
        let Keeping { leases: settings, most, until, close_within, store: identity, pausing } = keeping;
        let Joined { session, asked } = joined;
        Keeper {
            store,
            identity,
            session,
            feeds: feeds.into_iter().map(|feed| (feed.consumer.feed.clone(), feed)).collect(),
            stopped: Vec::new(),
            settings,
            most,
            until,
            close_within,
            watch: Watch::default(),
            owned: BTreeMap::new(),
            partitions: JoinSet::new(),
            trust: Trust::begin(settings.trust(), asked),
            news: mpsc::unbounded_channel(),
            caught_up: HashSet::new(),
            pruning: Pruning::default(),
            renew_at: asked + settings.renew,
            look_at: None,
            told: BTreeMap::new(),
            sight: Sight::default(),
            pausing,
            abandoned: BTreeMap::new(),
            orphaned: BTreeSet::new(),
            replaced: false,
            done: false,
            is_closing: false,
            observers,
        }
    }

    /// Runs until shutdown, or until there is nothing left to do.
    pub async fn run(mut self, mut shutdown: Pin<&mut impl Future<Output = ()>>) -> Result<(), HostError> {
        let (ticks, mut ticker) = mpsc::channel(1);
        let ticking = tasks::spawn(tick(Arc::clone(&self.store), self.settings.acquire, ticks));
        let mut event = Event::Round;
        loop {
            // The store may hang; the wish to end is heard all the same.
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = self.handle(event) => {}
            }
            if self.done || self.replaced || self.feeds.is_empty() {
                break;
            }
            event = tokio::select! {
                biased;
                () = &mut shutdown => break,
                // Whatever else happens, leases are renewed in time.
                () = tokio::time::sleep_until(self.renew_at) => Event::Renew,
                Some(ended) = self.partitions.join_next() => Event::Ended(ended),
                Some(News::CaughtUp(id)) = self.news.1.recv() => Event::CaughtUp(id),
                Some(()) = ticker.recv() => Event::Round,
                () = sleep_until(self.look_at) => Event::Round,
            };
        }
        ticking.abort();
        let bound = self.close_within + CLOSE_STORE_WITHIN;
        if tokio::time::timeout(bound, self.close()).await.is_err() {
            tracing::error!("the store does not answer; the leases are left to expire");
        }
        if self.replaced {
            return Err(HostError::NameTaken(self.session.host));
        }
        let must_all_be_done = self.until == Until::CaughtUp;
        if !self.stopped.is_empty() && (self.feeds.is_empty() || must_all_be_done) {
            return Err(HostError::Stopped(self.stopped));
        }
        Ok(())
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::Ended(ended) => self.have_ended(ended).await,
            Event::CaughtUp(id) => self.is_caught_up(id).await,
            Event::Renew => self.renew().await,
            Event::Round => self.round().await,
        }
    }

    fn feed_names(&self) -> Vec<FeedName> {
        let mut names: Vec<FeedName> = self.feeds.keys().cloned().collect();
        names.sort();
        names
    }

    /// Looks at the store, and does what there is to do.
    async fn round(&mut self) {
        let asked = clock::now();
        self.look_at = None;
        self.stop_paused();
        self.cut_off_late_ones(asked);
        // A host that could not renew takes nothing: it could not keep it.
        if self.trust.is_over() {
            self.renew().await;
        }
        self.give_up_abandoned(asked).await;
        let Some((judged, actions)) = self.look().await else { return };
        self.pruning.step(&self.feeds, self.sight.leases(), |lease| self.owned.contains_key(lease), asked);
        self.carry_out(actions).await;
        let reshaped = self.reshape(&judged).await;
        self.abandon_strays(&judged);
        self.tell_what_is_owned(&judged);
        self.tell_troubles();
        self.tell_feeds();
        self.done = self.until == Until::CaughtUp && !reshaped && self.all_caught_up(&judged);
        if self.done {
            self.tell_what_is_left_to_others(&judged);
        }
    }

    async fn carry_out(&mut self, actions: Vec<Action>) {
        let (mut wanted, mut asked) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Acquire(seen) if self.may_take(&seen.lease).await => wanted.push(seen),
                Action::Ask(seen) if self.until == Until::ShutDown => asked.push(seen),
                Action::Acquire(_) | Action::Ask(_) => {}
            }
        }
        wanted.truncate(self.room());
        asked.truncate(self.room().saturating_sub(wanted.len()));
        for seen in wanted.chunks(AT_ONCE) {
            self.renew_if_due().await;
            self.acquire(seen).await;
        }
        for seen in asked.chunks(AT_ONCE) {
            self.renew_if_due().await;
            self.ask(seen).await;
        }
    }

    async fn renew_if_due(&mut self) {
        if clock::now() >= self.renew_at {
            self.renew().await;
        }
    }

    /// Compares what the store says about this host's leases with what runs here.
    fn settle_own(&mut self, judged: &mut Judged) {
        for judged_lease in &mut judged.leases {
            let lease = &judged_lease.lease;
            let mine = lease.owner.as_ref().is_some_and(|owner| owner.session == self.session.id);
            match self.owned.get_mut(&lease.id) {
                Some(owned) if mine && owned.lease.epoch == lease.epoch => {
                    judged_lease.available = false;
                    owned
                        .asked
                        .send_if_modified(|asked| std::mem::replace(asked, lease.asked) != lease.asked);
                    if lease.part.as_ref().is_some_and(|part| part.next.is_some()) {
                        owned.begin_closing(CloseReason::Repartitioned, clock::now() + self.settings.expire);
                    }
                    if let Some(to) = lease.hand_over_to.clone() {
                        let cut_off = clock::now() + self.settings.expire;
                        owned.begin_closing(CloseReason::HandedOver { to }, cut_off);
                    }
                }
                Some(owned) => owned.halt(Halt::Lost),
                None if self.abandoned.contains_key(&lease.id) => {}
                // A lapse made this host give it up; nobody else has taken it since.
                None if mine => judged_lease.available = true,
                None => {}
            }
        }
    }

    /// Whether a lease that falls to this host is one that it has a use for.
    async fn may_take(&self, seen: &LeaseView) -> bool {
        !self.owned.contains_key(&seen.id)
            && (self.until != Until::ShutDownOnlyParked || self.has_marked(seen).await)
    }

    async fn acquire(&mut self, seen: &[Sighting]) {
        if self.trust.is_over() {
            return;
        }
        match self.store.acquire_all(&self.session, seen).await {
            Ok(leases) => {
                let taken = leases.into_iter().zip(seen).filter_map(|(lease, seen)| Some((lease?, seen)));
                for (lease, seen) in taken {
                    self.look_at = Some(clock::now() + AT_MOST_EVERY.min(self.settings.acquire));
                    match lease.part.as_ref().is_none_or(|part| part.is_to_run(&lease.position)) {
                        true => self.start(lease, seen.lease.asked),
                        // It was changed since it was looked at.
                        false => self.abandon(Release { lease, keep_for: None }, None),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(leases = seen.len(), %error, "cannot take leases; trying again");
            }
        }
    }

    /// Whether somebody asked to try objects of the partition again.
    async fn has_marked(&self, seen: &LeaseView) -> bool {
        let parked = self.store.parked(&seen.id.feed, Some(seen.id.partition)).await;
        parked.is_ok_and(|parked| parked.iter().any(|object| object.failure.state == ParkedState::Retrying))
    }

    async fn ask(&mut self, seen: &[LeaseView]) {
        match self.store.request_all(seen, &self.session.host).await {
            Ok(asked) => {
                for (seen, _) in seen.iter().zip(asked).filter(|(_, asked)| *asked) {
                    tracing::debug!(lease = %seen.id, "asked for");
                }
            }
            Err(error) => {
                tracing::warn!(leases = seen.len(), %error, "cannot ask for leases; trying again");
            }
        }
    }

    /// Gives this host's sign of life. Leases that others took in a long silence of this host are given up before it trusts any
    /// lease again; what else others did to its leases, the next look tells.
    async fn renew(&mut self) {
        let asked = clock::now();
        self.session.progress = self.checkpoints();
        match self.store.renew(&self.session).await {
            // Others may have judged this host silent and taken leases before this sign of life came.
            Ok(Renewal::Kept) if self.is_too_late() && !self.find_losses().await => {
                self.renew_at = clock::now() + self.settings.renew / 10;
            }
            Ok(Renewal::Kept) => {
                self.renew_at = asked + self.settings.renew;
                self.owned.values().for_each(|owned| self.observers.renewed(&owned.lease));
                self.trust.renewed(asked);
            }
            Ok(Renewal::Gone) => {
                self.renew_at = asked + self.settings.renew;
                self.owned.values_mut().for_each(|owned| owned.halt(Halt::Lost));
                // Why it is gone, the look tells.
                self.look_at = Some(asked);
            }
            // What somebody mends before the leases are lost was no trouble.
            Err(error @ StoreError::NeedsAttention { .. }) if self.is_too_late() => {
                for feed in self.feeds.keys().cloned().collect::<Vec<_>>() {
                    self.stop_feed(&feed, error.to_string());
                }
                self.renew_at = clock::now() + self.settings.renew;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot renew; trying again");
                self.renew_at = clock::now() + self.settings.renew / 10;
            }
        }
    }

    /// How many checkpoints this host has written.
    fn checkpoints(&self) -> u64 {
        self.feeds.values().map(|feed| feed.stats.checkpoints()).sum()
    }

    async fn is_caught_up(&mut self, id: LeaseId) {
        self.caught_up.insert(id);
        let all_mine = self.owned.keys().all(|id| self.caught_up.contains(id));
        if self.until == Until::CaughtUp && all_mine {
            self.round().await;
        }
    }

    /// Every partition is either caught up here or another live host's business.
    fn all_caught_up(&self, judged: &Judged) -> bool {
        let running =
            |lease: &&JudgedLease| self.feeds.contains_key(&lease.lease.id.feed) && !has_ended(&lease.lease);
        if self.feeds.values().any(|feed| feed.change.count().is_some()) {
            return false;
        }
        judged.leases.iter().filter(running).all(|lease| {
            let id = &lease.lease.id;
            let elsewhere = lease.held && !self.owned.contains_key(id);
            let is_to_end = lease.lease.part.as_ref().is_some_and(|part| part.next.is_some());
            elsewhere || (self.owned.contains_key(id) && self.caught_up.contains(id) && !is_to_end)
        })
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Wakes the keeper every interval, and sooner when the store has news.
async fn tick(store: Arc<dyn Store>, every: Duration, ticks: mpsc::Sender<()>) {
    loop {
        store.wait(every).await;
        if ticks.send(()).await.is_err() {
            return;
        }
        tokio::time::sleep(AT_MOST_EVERY.min(every)).await;
    }
}
