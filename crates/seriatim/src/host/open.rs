//! Before a host runs: its feeds are set up, and its name is its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::partition::SharedTarget;
use super::partition::machine::Target;
use super::pausing::Pause;
use super::sliced::{Readers, WantedChange};
use super::{CheckpointPolicy, FeedRuntime, FeedSettings, Given, HostError, Until};
use crate::change::Position;
use crate::clock;
use crate::lease::{Holder, HostView, Joined, Layout, LeaseView, Liveness, Naming, Step};
use crate::name::{FeedName, HostName, SessionId, StoreId};
use crate::source::{Consumer, Feed, Lost, Start};
use crate::store::{EnsureError, JoinError, Session, Store};

/// How often a name that is taken is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Sets every feed up in its source and in the store.
pub(super) async fn feeds(
    store: &Arc<dyn Store>,
    id: &StoreId,
    given: Vec<Given>,
    until: Until,
) -> Result<Vec<Arc<FeedRuntime>>, HostError> {
    let mut feeds = Vec::new();
    for Given { feed, handling, settings, stats } in given {
        let name = feed.name().clone();
        if settings.chain && !store.keeps_chains() {
            return Err(HostError::Settings(format!(
                "feed {name} is to have a chain, and its store cannot keep one: leave `chain` out, or keep the store in SQLite or PostgreSQL"
            )));
        }
        let consumer = Consumer { feed: name.clone(), store: id.clone() };
        let in_source = |error| HostError::Source { feed: name.clone(), error };
        let books = feed.registered().await.map_err(in_source)?;
        let has_checkpoints = !store.view(std::slice::from_ref(&name)).await?.leases.is_empty();
        if has_checkpoints && !feed.knows(&consumer).await.map_err(in_source)? {
            return Err(HostError::SourceReplaced { feed: name });
        }
        if let Some(lost) = Lost::find(&name, id, &books).filter(|_| !has_checkpoints) {
            return Err(HostError::StoreLost { feed: name, lost: Box::new(lost) });
        }
        // What is the default is not worth a word.
        if has_checkpoints && settings.start != Start::Beginning {
            let start = &settings.start;
            tracing::info!(feed = %name, "goes on from its checkpoints; start = {start} counts for new feeds only");
        }
        let start = feed.open(&consumer, &settings.start).await.map_err(in_source)?;
        let wanted =
            ensure(&**store, &*feed, &settings, &start).await?.filter(|_| until != Until::ShutDownOnlyParked);
        let pause = Pause::default();
        let target = Arc::new(SharedTarget::new(Target::new(name, settings.retry.backoff), pause.clone()));
        let (full, parked) = (Mutex::default(), Mutex::default());
        let (readers, change) = (Readers::default(), WantedChange::to(wanted));
        let runtime = FeedRuntime {
            feed,
            consumer,
            handling,
            settings,
            stats,
            readers,
            change,
            until,
            pause,
            target,
            full,
            parked,
        };
        feeds.push(Arc::new(runtime));
    }
    Ok(feeds)
}

/// Makes sure that the feed has leases. Returns the number of partitions that it is to have, if it has another one.
async fn ensure(
    store: &dyn Store,
    feed: &dyn Feed,
    settings: &FeedSettings,
    start: &Position,
) -> Result<Option<u32>, HostError> {
    let (name, wanted) = (feed.name(), feed.partitions());
    // A handler that acknowledges by itself may wait for changes that lie behind the end of its partition.
    let acknowledges = settings.checkpoint == CheckpointPolicy::Manual;
    let can_change = store.reshapes() && !acknowledges && feed.resliced(wanted).is_some();
    match store.ensure(name, wanted, start).await {
        Err(EnsureError::PartitionCount { .. }) if can_change => {}
        ensured => ensured?,
    }
    if !can_change {
        return Ok(None);
    }
    let leases = store.view(std::slice::from_ref(name)).await?.leases;
    let leases: Vec<&LeaseView> = leases.iter().collect();
    let count = Layout::of(&leases).count();
    if count == wanted {
        return Ok(None);
    }
    tracing::info!(feed = %name, "has {count} partitions; this host changes that to {wanted}");
    Ok(Some(wanted))
}

/// Enters the store under a name. A holder that is alive keeps it; one that stays silent for its expiry is replaced.
pub(super) async fn join(
    store: &dyn Store,
    name: &HostName,
    feeds: &[FeedName],
    expire: Duration,
) -> Result<Joined<Session>, HostError> {
    outlive_older_hosts(store).await?;
    let (mut naming, mut replacing) = (Naming::default(), None);
    loop {
        let asked = clock::now();
        let replaced = replacing.as_ref().map(|(session, beat)| (session, *beat));
        match store.join(name, feeds, expire, replaced).await {
            Ok(session) => return Ok(Joined { session, asked }),
            Err(JoinError::Store(error)) => return Err(error.into()),
            Err(JoinError::NameTaken { session, beat, host, expire, liveness }) => {
                let holder = Holder { session, beat, expire, liveness };
                match naming.is_taken_by(&holder, asked, clock::now()) {
                    Step::Refused => return Err(HostError::NameTaken(host)),
                    Step::Replace => replacing = Some((holder.session, beat)),
                    Step::Wait => {}
                    Step::BeginToWait => {
                        tracing::info!(%host, "the name is taken; waiting until its holder has been silent for {expire:?}");
                    }
                }
            }
        }
        tokio::time::sleep(LOOK_AGAIN.min(expire)).await;
    }
}

/// Waits until hosts of an older version have been silent for their expiry. They would not see the sign of life of this host and
/// would take its leases, so one that lives keeps this host out.
async fn outlive_older_hosts(store: &dyn Store) -> Result<(), HostError> {
    let mut older = store.older_hosts(&[]).await?;
    let began = clock::now();
    while !older.is_empty() {
        let asked = clock::now();
        let is_over = |host: &HostView| asked.saturating_duration_since(began) >= host.expire;
        let silent: Vec<(SessionId, u64)> =
            older.iter().filter(|host| is_over(host)).map(|host| (host.session.clone(), host.beat)).collect();
        let now = store.older_hosts(&silent).await?;
        let stood_still =
            |host: &HostView| older.iter().any(|old| old.session == host.session && old.beat == host.beat);
        let alive = |host: &&HostView| host.liveness == Liveness::Alive || !stood_still(host);
        let alive: Vec<HostName> = now.iter().filter(alive).map(|host| host.name.clone()).collect();
        if !alive.is_empty() {
            return Err(HostError::OlderHosts(alive));
        }
        older = now;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
