//! The keeper: keeps this host's leases, and starts and closes a partition for each.

mod closing;
mod owned;
mod telling;

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::observer::{CloseReason, Observers};
use super::partition::{Closed, Halt, News};
use super::pruning::Pruning;
use super::{FeedRuntime, HostError, LeaseSettings, Until};
use crate::clock;
use crate::lease::{Action, Judged, Lease, LeaseId, LeaseView, Watch, balance};
use crate::name::FeedName;
use crate::store::{ParkedState, Renewal, Session, Store};
use crate::tasks::{self, JoinSet};
use owned::Owned;

/// However often the store says that something may have changed, the keeper looks no more often than this.
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

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
}

pub(super) struct Keeper {
    store: Arc<dyn Store>,
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
    trusted_until: watch::Sender<Instant>,
    news: (mpsc::UnboundedSender<News>, mpsc::UnboundedReceiver<News>),
    caught_up: HashSet<LeaseId>,
    pruning: Pruning,
    renew_at: Instant,
    /// When to look once more: whoever got what it asked for may need more.
    look_at: Option<Instant>,
    /// How many partitions of each feed it said it owns.
    told: BTreeMap<FeedName, usize>,
    /// Some partition hung and was cut off: its lease is left to expire.
    cut_off: bool,
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
        session: Session,
        feeds: Vec<Arc<FeedRuntime>>,
        keeping: Keeping,
        observers: Arc<Observers>,
    ) -> Self {
        let Keeping { leases: settings, most, until, close_within } = keeping;
        let now = clock::now();
        Keeper {
            store,
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
            trusted_until: watch::Sender::new(now + settings.trust()),
            news: mpsc::unbounded_channel(),
            caught_up: HashSet::new(),
            pruning: Pruning::default(),
            renew_at: now + settings.renew,
            look_at: None,
            told: BTreeMap::new(),
            cut_off: false,
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
            Event::Ended(ended) => self.ended(ended).await,
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
        self.cut_off_late_ones(asked);
        // A host that could not renew takes nothing: it could not keep it.
        if asked >= *self.trusted_until.borrow() {
            self.renew().await;
        }
        let feeds = self.feed_names();
        let view = match self.store.view(&feeds).await {
            Ok(view) => view,
            Err(error) => return tracing::warn!(%error, "cannot look at the leases; trying again"),
        };
        if !view.hosts.iter().any(|host| host.session == self.session.id) {
            self.replaced = true;
            return;
        }
        #[cfg(feature = "simulation")]
        let asked = crate::simulation::by_host_clock(asked);
        let mut judged = self.watch.judge(&view, asked, clock::now(), self.settings.expire);
        self.settle_own(&mut judged);
        self.pruning.step(&self.feeds, &view.leases, |lease| self.owned.contains_key(lease), asked);
        for action in balance(&judged, &self.session.host, &self.session.id, &feeds) {
            if self.room() == 0 {
                break;
            }
            if clock::now() >= self.renew_at {
                self.renew().await;
            }
            match action {
                Action::Acquire(seen) => self.acquire(&seen).await,
                Action::Ask(_) if self.until != Until::ShutDown => {}
                Action::Ask(seen) => self.ask(&seen).await,
            }
        }
        self.tell_what_is_owned(&judged);
        self.tell_troubles();
        self.tell_feeds();
        self.done = self.until == Until::CaughtUp && self.all_caught_up(&judged);
        if self.done {
            self.tell_what_is_left_to_others(&judged);
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
                    if let Some(to) = lease.hand_over_to.clone() {
                        let cut_off = clock::now() + self.settings.expire;
                        owned.begin_closing(CloseReason::HandedOver { to }, cut_off);
                    }
                }
                Some(owned) => owned.halt(Halt::Lost),
                // A lapse made this host give it up; nobody else has taken it since.
                None if mine => judged_lease.available = true,
                None => {}
            }
        }
    }

    async fn acquire(&mut self, seen: &LeaseView) {
        if self.owned.contains_key(&seen.id) || clock::now() >= *self.trusted_until.borrow() {
            return;
        }
        if self.until == Until::ShutDownOnlyParked && !self.has_marked(seen).await {
            return;
        }
        match self.store.acquire(&self.session, seen).await {
            Ok(Some(lease)) => {
                self.look_at = Some(clock::now() + AT_MOST_EVERY.min(self.settings.acquire));
                self.start(lease, seen.asked);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(lease = %seen.id, %error, "cannot take the lease; trying again"),
        }
    }

    /// Whether somebody asked to try objects of the partition again.
    async fn has_marked(&self, seen: &LeaseView) -> bool {
        let parked = self.store.parked(&seen.id.feed, Some(seen.id.partition)).await;
        parked.is_ok_and(|parked| parked.iter().any(|object| object.failure.state == ParkedState::Retrying))
    }

    async fn ask(&mut self, seen: &LeaseView) {
        match self.store.request_hand_over(seen, &self.session.host).await {
            Ok(true) => tracing::debug!(lease = %seen.id, "asked for"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = %seen.id, %error, "cannot ask for the lease; trying again");
            }
        }
    }

    async fn renew(&mut self) {
        let asked = clock::now();
        let leases: Vec<Lease> = self.owned.values().map(|owned| owned.lease.clone()).collect();
        match self.store.renew(&self.session, &leases).await {
            Ok(renewals) => {
                self.renew_at = asked + self.settings.renew;
                let cut_off = asked + self.settings.expire;
                for (lease, renewal) in leases.iter().zip(renewals) {
                    let Some(owned) = self.owned.get_mut(&lease.id) else { continue };
                    match renewal {
                        Renewal::Lost => owned.halt(Halt::Lost),
                        Renewal::Kept { hand_over_to } => {
                            self.observers.renewed(lease);
                            if let Some(to) = hand_over_to {
                                owned.begin_closing(CloseReason::HandedOver { to }, cut_off);
                            }
                        }
                    }
                }
                self.trusted_until.send_replace(asked + self.settings.trust());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot renew; trying again");
                self.renew_at = clock::now() + self.settings.renew / 10;
            }
        }
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
        judged.leases.iter().all(|lease| {
            let id = &lease.lease.id;
            let elsewhere = lease.held && !self.owned.contains_key(id);
            elsewhere || (self.owned.contains_key(id) && self.caught_up.contains(id))
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
