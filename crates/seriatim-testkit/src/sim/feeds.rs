//! Hosts over a feed: changes in transactions that commit late, handlers that fail, and somebody who retries and discards.

use std::future::Future as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::change::{Change, Position};
use seriatim::handler::{
    Backoff, CommitError, Context, Failure, Handler, Handling, Retry, TransactionalHandler,
};
use seriatim::host::{FeedSettings, Host};
use seriatim::lease::LeaseView;
use seriatim::name::FeedName;
use seriatim::store::{Checkpoint, CheckpointError, Discard, OnRewind, ParkedState, Store};

use super::history::What;
use super::plan::{Plan, Scene};
use super::source::{Database, SimFeed};
use super::store::{ModelStore, SimStore, feed_number, place};
use super::world::{Link, World, draw, here, record};

const FEED: &str = "f0";

/// After the chaos, everything that can be done has to be done within this time. Some hosts may still stand still for a while.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Sets the scene.
pub fn set(world: &Rc<World>, handler: Option<Arc<dyn Handler>>) {
    let plan = world.plan.clone();
    let database = Database::new(FEED, plan.partitions);
    let model = ModelStore::new(plan.tells_dead);
    if plan.scene == Scene::Divided {
        begin(&model, &database.feed, plan.partitions);
    }
    write_changes(world, &plan, &database);
    world.spawn(meddle(model.clone(), plan.chaos));
    world.spawn(watch(model.clone(), database.clone(), plan.chaos));
    world.start_hosts(Box::new(move |link, stop| {
        let store = SimStore { model: model.clone(), link: link.clone() };
        let partitions = match plan.scene {
            Scene::Divided => draw(|random| random.u32(1..=6)),
            _ => plan.partitions,
        };
        let feed = SimFeed { database: database.clone(), link: link.clone(), partitions };
        let is_transactional = match plan.scene {
            Scene::Divided => plan.seed.is_multiple_of(2),
            scene => scene == Scene::Transactional,
        };
        let handling = match is_transactional {
            true => Handling::ExactlyOnce(Arc::new(InTransaction { store: store.clone() })),
            false => {
                Handling::AtLeastOnce(Arc::new(Plainly { link: link.clone(), handler: handler.clone() }))
            }
        };
        let host =
            Host::new(&link.name, Arc::new(store)).feed_with(Arc::new(feed), handling, settings(&plan));
        let this = link.clone();
        here().scheduler.spawn_on(link.machine, async move {
            let ended = host.run_until(async move { stop.notified().await }).await;
            let how = ended.map_or_else(|error| error.to_string(), |()| "as asked".to_owned());
            here().ended(&this, how);
        });
    }));
}

/// The feed is there before the first host, with the number of partitions by which checkers know where changes are.
fn begin(model: &ModelStore, feed: &FeedName, partitions: u32) {
    let start = Position::number(0);
    let ensured = std::pin::pin!(model.inner.ensure(feed, partitions, &start));
    let ensured = ensured.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(ensured, std::task::Poll::Ready(Ok(()))), "nothing stands in the way of a new feed");
}

fn settings(plan: &Plan) -> FeedSettings {
    let backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };
    FeedSettings {
        batch: plan.batch,
        concurrency: plan.concurrency,
        chain: plan.chain,
        timeout: TIMEOUT,
        retry: Retry { attempts: plan.attempts, backoff, ..Retry::default() },
        // Looks of idle feeds are steps too: with fewer of them, more of a run is about what may go wrong.
        idle: Duration::from_secs(1),
        ..FeedSettings::default()
    }
}

/// One transaction after another, some of which commit long after others that began later.
pub fn write_changes(world: &Rc<World>, plan: &Plan, database: &Database) {
    let mut left = plan.changes;
    while left > 0 {
        let (at, open, keys, truncates) = world.draw(|random| {
            let keys: Vec<i64> =
                (0..random.usize(1..=3.min(left))).map(|_| random.i64(0..i64::from(plan.objects))).collect();
            let open = match random.u8(..10) {
                0 => random.u64(..12_000),
                1..4 => random.u64(..400),
                _ => 0,
            };
            (random.u64(..plan.burst), open, keys, plan.truncates > 0 && random.u8(..10) < plan.truncates)
        });
        left -= keys.len();
        let database = database.clone();
        world.spawn(async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            let transaction = if truncates { database.truncate() } else { database.write(&keys) };
            tokio::time::sleep(Duration::from_millis(open)).await;
            database.commit(transaction);
        });
    }
}

/// Somebody who retries and discards now and then, and perhaps rewinds.
async fn meddle(model: ModelStore, chaos: u64) {
    let feed = FeedName::new(FEED).expect("a name");
    let rewinds = here().plan.rewinds;
    loop {
        let pause = draw(|random| random.u64(500..8_000));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if here().scheduler.elapsed() > Duration::from_millis(chaos) {
            return;
        }
        if rewinds && draw(|random| random.u8(..4)) == 0 {
            rewind(&model, &feed).await;
            continue;
        }
        let parked = model.inner.parked(&feed, None).await.unwrap_or_default();
        let chosen = draw(|random| random.choice(parked.iter()).cloned());
        let Some(object) = chosen else { continue };
        let kept = model.inner.parked_changes(&feed, &object.key, 1).await.unwrap_or_default();
        let Some(first) = kept.first().map(|change| change.id) else { continue };
        let what = draw(|random| random.u8(..6));
        let done = match what {
            0 => model.discard(&feed, &object.key, Discard::First(first)).await,
            1 => model.discard(&feed, &object.key, Discard::All(first)).await,
            2 => model.inner.retry_parked(&feed, None).await.map(drop),
            _ => model.inner.retry_parked(&feed, Some(&object.key)).await.map(drop),
        };
        drop(done);
    }
}

/// Sets a partition back, to its beginning or somewhere between.
async fn rewind(model: &ModelStore, feed: &FeedName) {
    let Ok(view) = model.inner.view(std::slice::from_ref(feed)).await else { return };
    let chosen = draw(|random| random.choice(view.leases.iter()).cloned());
    let Some(lease) = chosen else { return };
    // Only the lease is taken from its owner.
    if draw(|random| random.u8(..3)) == 0 {
        drop(model.rewind(&lease, place(&lease.position), OnRewind::KeepParked).await);
        return;
    }
    let parked = model.inner.parked(feed, Some(lease.id.partition)).await.unwrap_or_default();
    // What stays parked and comes again is told twice: nobody could say then what once means.
    let between = draw(|random| random.bool()) && parked.is_empty();
    drop(match between {
        true => {
            model
                .rewind(&lease, draw(|random| random.u64(..=place(&lease.position))), OnRewind::KeepParked)
                .await
        }
        false => model.rewind(&lease, 0, OnRewind::DropParked).await,
    });
}

/// Ends the chaos, then the ills, and then the run.
async fn watch(model: ModelStore, database: Database, chaos: u64) {
    tokio::time::sleep(Duration::from_millis(chaos)).await;
    here().calm_down();
    let mut patience = Patience::new();
    while !is_done(&model, &database, false).await && patience.lasts().await {}
    here().cure();
    let feed = FeedName::new(FEED).expect("a name");
    drop(model.inner.retry_parked(&feed, None).await);
    let mut patience = Patience::new();
    while !is_done(&model, &database, true).await && patience.lasts().await {}
    for object in model.inner.parked(&feed, None).await.unwrap_or_default() {
        for change in model.inner.parked_changes(&feed, &object.key, usize::MAX).await.unwrap_or_default() {
            record(What::LeftParked { feed: feed_number(&feed), change: change.id });
        }
    }
    record(What::Over);
    here().scheduler.finish();
}

/// Waiting for something that has to come in time.
pub struct Patience(tokio::time::Instant);

impl Patience {
    /// All of it.
    pub fn new() -> Self {
        Patience(seriatim::clock::now() + PATIENCE)
    }

    /// Waits a moment. `false` when there is none left.
    pub async fn lasts(&mut self) -> bool {
        tokio::time::sleep(Duration::from_millis(500)).await;
        seriatim::clock::now() < self.0
    }
}

async fn is_done(model: &ModelStore, database: &Database, nothing_parked: bool) -> bool {
    let feed = FeedName::new(FEED).expect("a name");
    let Ok(view) = model.inner.view(std::slice::from_ref(&feed)).await else { return false };
    let newest = database.newest();
    let all_passed = !view.leases.is_empty()
        && view.leases.iter().all(|lease| place(&lease.position) >= newest || has_ended(lease));
    let parked = model.inner.parked(&feed, None).await.unwrap_or_default();
    let waits = |state| state == ParkedState::Retrying || nothing_parked;
    database.is_settled() && all_passed && !parked.iter().any(|object| waits(object.failure.state))
}

/// Others go on where it ended.
fn has_ended(lease: &LeaseView) -> bool {
    lease.owner.is_none() && lease.part.as_ref().is_some_and(|part| part.ends_at(&lease.position))
}

/// Why a change fails, if it does.
fn ill(change: &Change) -> Option<Failure> {
    let world = here();
    let poison = world.plan.poison;
    if world.is_cured() {
        None
    } else if poison > 0 && change.id.is_multiple_of(poison) {
        Some(if change.id.is_multiple_of(2) { Failure::poison("poison") } else { Failure::change("always") })
    } else {
        match world.draw(|random| random.u8(..80)) {
            0 => Some(Failure::target("away")),
            drawn if drawn <= world.plan.flaky => Some(Failure::change("now and then")),
            _ => None,
        }
    }
}

/// Marks the end of a call, also of one that is dropped.
struct Calling {
    call: u64,
    link: Link,
}

impl Calling {
    fn begin(link: &Link, changes: &[Change], context: &Context) -> Self {
        let world = here();
        let call = world.number();
        world.coverage.borrow_mut().calls(link.machine, "handle");
        let lease = &context.lease;
        let (feed, partition, epoch) = (feed_number(&lease.id.feed), lease.id.partition.0, lease.epoch.0);
        if world.plan.chain {
            for change in changes {
                world.record_on(link.machine, What::Linked { change: change.id, prev: change.prev });
            }
        }
        let changes = changes.iter().map(|change| change.id).collect();
        world.record_on(link.machine, What::Began { call, feed, partition, epoch, changes });
        Calling { call, link: link.clone() }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // The last ones are dropped with the world.
        if let Some(world) = super::world::world_if_any() {
            world.record_on(self.link.machine, What::Ended { call: self.call });
        }
    }
}

/// Some calls take longer than they may, which is a failure too.
async fn take_time(call: u64, changes: &[Change], taken: &mut u64) {
    let slow = here().plan.slow;
    let time = draw(|random| match random.u8(..60) {
        0 => random.u64(..6_000),
        drawn if drawn <= slow => random.u64(..2_500),
        drawn if drawn <= slow + 8 => random.u64(..100),
        _ => 0,
    });
    let time = if here().is_cured() { time.min(100) } else { time };
    *taken += time;
    if u128::from(*taken) >= TIMEOUT.as_millis() {
        changes.iter().for_each(|change| record(What::Failed { call, change: change.id }));
    }
    if time > 0 {
        tokio::time::sleep(Duration::from_millis(time)).await;
    }
}

/// A handler that is called at least once.
struct Plainly {
    link: Link,
    /// Somebody's own, if it is under test.
    handler: Option<Arc<dyn Handler>>,
}

#[async_trait]
impl Handler for Plainly {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let calling = Calling::begin(&self.link, changes, context);
        if let Some(handler) = &self.handler {
            return watched(&**handler, calling.call, changes, context).await;
        }
        let mut taken = 0;
        for (index, change) in changes.iter().enumerate() {
            take_time(calling.call, changes, &mut taken).await;
            if let Some(failure) = ill(change) {
                record(What::Failed { call: calling.call, change: change.id });
                let names_it = draw(|random| random.bool());
                return Err(if names_it { failure.at(index) } else { failure });
            }
            record(What::Handled { call: calling.call, change: change.id });
        }
        Ok(())
    }
}

/// Calls somebody's own handler, and writes down what it said.
async fn watched(
    handler: &dyn Handler,
    call: u64,
    changes: &[Change],
    context: &Context,
) -> Result<(), Failure> {
    rest().await;
    let handled = handler.handle(changes, context).await;
    let culprit = match &handled {
        Ok(()) => None,
        Err(failure) => Some(failure.culprit),
    };
    for (index, change) in changes.iter().enumerate() {
        match culprit {
            None => record(What::Handled { call, change: change.id }),
            Some(Some(culprit)) if index < culprit => record(What::Handled { call, change: change.id }),
            Some(_) => record(What::Failed { call, change: change.id }),
        }
    }
    // What was done and not said yet is done again after a crash.
    rest().await;
    handled
}

async fn rest() {
    let time = draw(|random| random.u64(..500));
    tokio::time::sleep(Duration::from_millis(time)).await;
}

/// A handler whose effect is in the checkpoint's transaction.
struct InTransaction {
    store: SimStore,
}

#[async_trait]
impl TransactionalHandler for InTransaction {
    async fn handle_and_checkpoint(
        &self,
        changes: &[Change],
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<(), CommitError> {
        let SimStore { model, link } = &self.store;
        let calling = Calling::begin(link, changes, context);
        take_time(calling.call, &[], &mut 0).await;
        for (index, change) in changes.iter().enumerate() {
            if let Some(failure) = ill(change) {
                record(What::Failed { call: calling.call, change: change.id });
                let names_it = draw(|random| random.bool());
                return Err(CommitError::Failed(if names_it { failure.at(index) } else { failure }));
            }
        }
        let (model, machine) = (model.clone(), link.machine);
        let (lease, checkpoint) = (Arc::clone(&context.lease), checkpoint.clone());
        let ids: Vec<u64> = changes.iter().map(|change| change.id).collect();
        let commit = async move { model.checkpoint(&lease, &checkpoint, Some(&ids), machine).await };
        link.call("commit", commit).await.map_err(|error| match error {
            CheckpointError::Fenced { by } => CommitError::Fenced { by },
            CheckpointError::Store(error) => CommitError::Store(error),
        })
    }
}
