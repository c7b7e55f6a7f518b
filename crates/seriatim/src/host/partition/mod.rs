//! One partition while this host owns it: reads, handles, checkpoints, until it is told to stop or loses the lease.
//!
//! ```text
//!   reader, handler, store ──events──▶ machine (pure) ──actions──▶ reader, handler, store
//!                 ▲                                                       │
//!                 └─────────────── this file carries them out ◀───────────┘
//! ```
//!
//! All decisions are in [`machine`].

mod executor;
mod full;
mod heritage;
pub(crate) mod machine;
mod target;
mod told;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::observer::{CloseReason, Observers};
use super::reader::{Answer as ReadAnswer, OpenGuard};
use super::sliced::FeedSlice;
use super::{CheckpointPolicy, FeedRuntime};
use crate::clock;
use crate::handler::{Checkpointer, Handling};
use crate::lease::{Lease, LeaseId, Part};
use crate::name::Epoch;
use crate::source::{Cursor, Feed, Limit, SourceError};
use crate::store::{CheckpointError, Store, StoreError};
use crate::tasks::JoinSet;
use executor::Executor;
use full::Full;
use machine::{Action, At, Called, Event, Machine, Rules, Ticket};
use target::Permit;
pub(crate) use target::SharedTarget;
use told::Told;

/// Why a partition was closed.
#[derive(Clone, Debug)]
pub enum Closed {
    /// As asked: what ran is finished and checkpointed.
    Drained,
    /// The lease is gone, or may be.
    Lost(String),
    /// It cannot go on until somebody does something.
    Failed(String),
    /// It was ended from outside.
    Halted(Halt),
}

/// Why a partition is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The lease has another owner.
    Lost,
    /// It did not finish in time.
    TooLate,
}

impl Closed {
    fn of_store(error: StoreError) -> Self {
        match error {
            // Whether it happened is not known: only the store can tell, when the lease is taken anew.
            StoreError::Unavailable { .. } => Closed::Lost(error.to_string()),
            StoreError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
        }
    }

    fn of_checkpoint(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Fenced { by } => Closed::fenced(by),
            CheckpointError::Store(error) => Closed::of_store(error),
        }
    }

    fn of_source(error: &SourceError) -> Self {
        match error {
            SourceError::Unavailable { .. } => Closed::Lost(error.to_string()),
            SourceError::NeedsAttention { .. } => Closed::Failed(error.to_string()),
        }
    }

    fn fenced(by: Epoch) -> Self {
        Closed::Lost(format!("its epoch is {by} now"))
    }

    pub(super) fn panicked() -> Self {
        Closed::Failed("its task panicked, which is a fault in Seriatim: please report it".to_owned())
    }
}

/// What a partition tells the host while it runs.
#[derive(Debug)]
pub(super) enum News {
    /// Everything that was committed when it last looked is handled and checkpointed.
    CaughtUp(LeaseId),
}

/// What a partition is run with.
pub(super) struct Setup {
    pub lease: Lease,
    /// Which part of the feed it is on.
    pub part: Part,
    pub store: Arc<dyn Store>,
    pub feed: Arc<FeedRuntime>,
    /// Says why once the partition is to finish and close.
    pub closing: watch::Receiver<Option<CloseReason>>,
    /// Until when the lease can be trusted.
    pub trusted_until: watch::Receiver<Instant>,
    /// Moves when somebody asked for something about what is parked here.
    pub asked: watch::Receiver<u64>,
    pub news: mpsc::UnboundedSender<News>,
    pub observers: Arc<Observers>,
    /// Turns true when the partition is halted.
    pub gone: Arc<AtomicBool>,
}

/// Runs a partition until it is closed, and says why it was.
pub(super) async fn run(setup: Setup) -> Closed {
    match Shell::open(setup).await {
        Ok(mut shell) => {
            let timeout = shell.setup.feed.settings.timeout;
            shell.setup.observers.opened(&shell.executor.lease, timeout).await;
            shell.run().await
        }
        Err(closed) => closed,
    }
}

/// Carries out what the machine says, and tells it what came of it.
struct Shell {
    setup: Setup,
    machine: Machine,
    executor: Executor,
    /// Whether the handler tells what is done before a call ends.
    tells: bool,
    /// Turns true when no further attempt may begin.
    quit: watch::Sender<bool>,
    asked: Option<oneshot::Receiver<ReadAnswer>>,
    /// Calls of the handler. They keep their permits until the machine knows what came of them.
    calls: JoinSet<(Event, Option<Permit>)>,
    /// What their handlers have told so far.
    told: HashMap<Ticket, Arc<Told>>,
    /// Everything else that is under way in the store.
    store_calls: JoinSet<Event>,
    /// What the machine said last, while it is carried out.
    actions: Vec<Action>,
    /// Says so while the partition cannot go on.
    full: Full,
    /// How many objects it last said are parked.
    parked: u64,
    /// Moves when an outage of the target is over.
    recovered: watch::Receiver<u64>,
    slice: Arc<FeedSlice>,
    _open: OpenGuard,
}

impl Shell {
    async fn open(setup: Setup) -> Result<Self, Closed> {
        let id = &setup.lease.id;
        let slice = setup.feed.slice(&setup.part).await.map_err(|error| Closed::of_source(&error))?;
        heritage::adopt(&setup, &*slice.feed).await?;
        let parked = setup.store.parked(&id.feed, Some(id.partition)).await.map_err(Closed::of_store)?;
        let rules = rules(&setup, &*slice.feed);
        refuse_strange_source(&setup, &*slice.feed, &rules).await?;
        let quit = watch::Sender::new(false);
        let executor = Executor {
            handling: setup.feed.handling.clone(),
            lease: Arc::new(setup.lease.clone()),
            timeout: setup.feed.settings.timeout,
            trusted_until: setup.trusted_until.clone(),
            gone: Arc::clone(&setup.gone),
            target: Arc::clone(&setup.feed.target),
            closing: quit.subscribe(),
            checkpointer: rules.manual_ack.then(Checkpointer::default),
        };
        let begin = (setup.lease.position.clone(), setup.lease.done.clone());
        let (stats, tells) = (Arc::clone(&setup.feed.stats), rules.tells && rules.remembers);
        let trusted_until = *setup.trusted_until.borrow();
        Ok(Shell {
            machine: Machine::open(rules, begin, &parked, stats, trusted_until, this_moment()),
            executor,
            tells,
            quit,
            asked: None,
            calls: JoinSet::new(),
            told: HashMap::new(),
            store_calls: JoinSet::new(),
            actions: Vec::new(),
            full: Full::new(&setup.feed, &setup.lease.id),
            parked: 0,
            recovered: setup.feed.target.recovered(),
            _open: slice.reader.enter(setup.lease.id.partition),
            slice,
            setup,
        })
    }

    async fn run(&mut self) -> Closed {
        let (mut event, mut permit) = (Event::Woken, None);
        loop {
            // However busy the partition is, it knows at once that it is closing, and that its lease was renewed.
            while let Some(first) = self.keepers_word() {
                if let Some(closed) = self.tell(first) {
                    return closed;
                }
            }
            let closed = self.tell(event);
            // The target knows what came of the call.
            drop(permit);
            if let Some(closed) = closed {
                return closed;
            }
            (event, permit) = self.next_event().await;
        }
    }

    /// Tells the machine what has happened, and does what it says.
    fn tell(&mut self, event: Event) -> Option<Closed> {
        let (machine, actions) = (&mut self.machine, &mut self.actions);
        self.setup.feed.target.with(|target| actions.extend(machine.on(event, this_moment(), target)));
        let (closing, parked) = (machine.is_closing(), machine.parked());
        if std::mem::replace(&mut self.parked, parked) != parked {
            self.setup.feed.note_parked(self.setup.lease.id.partition, parked);
        }
        self.quit.send_if_modified(|quit| std::mem::replace(quit, closing) != closing);
        let mut actions = std::mem::take(&mut self.actions);
        let closed = actions.drain(..).find_map(|action| self.carry_out(action));
        self.actions = actions;
        closed
    }

    fn keepers_word(&mut self) -> Option<Event> {
        if self.setup.trusted_until.has_changed().unwrap_or(false) {
            return Some(Event::Trusted(*self.setup.trusted_until.borrow_and_update()));
        }
        let closes = self.setup.closing.has_changed().unwrap_or(false);
        closes.then(|| self.setup.closing.mark_unchanged()).map(|()| Event::Close)
    }

    /// Carries out an action, or begins to. Its event comes later.
    fn carry_out(&mut self, action: Action) -> Option<Closed> {
        let (store, feed) = (Arc::clone(&self.setup.store), self.setup.lease.id.feed.clone());
        let (lease, partition) = (Arc::clone(&self.executor.lease), self.setup.lease.id.partition);
        match action {
            Action::Read(after) => self.asked = Some(self.slice.reader.want(partition, after)),
            Action::FindChain(keys) => {
                self.ask_store(async move { Event::ChainFound(store.chained(&feed, &keys).await) });
            }
            Action::Call { ticket, changes, then, attempt, is_first } => {
                let (executor, observers) = (self.executor.clone(), Arc::clone(&self.setup.observers));
                let told = (self.tells && changes.len() > 1).then(|| Arc::new(Told::of(&changes)));
                self.told.extend(told.as_ref().map(|told| (ticket, Arc::clone(told))));
                self.calls.spawn(async move {
                    if is_first {
                        observers.changes(&lease, &changes, executor.timeout).await;
                    }
                    // In a box: the task is moved several times before it runs, and this is most of it.
                    let call = Box::pin(executor.call(&changes, &then, attempt, told.as_deref()));
                    let (answer, acked, permit) = call.await;
                    (Event::Called(ticket, Called { changes, answer, acked }), permit)
                });
            }
            Action::LookAtCalls => {
                let told = self.told.iter().map(|(ticket, told)| (*ticket, told.done())).collect();
                return self.tell(Event::Told(told));
            }
            Action::GiveUp(ticket, then) => {
                self.ask_store(async move { Event::GaveUp(ticket, store.checkpoint(&lease, &then).await) })
            }
            Action::ReadParked(ticket, key, limit) => self.ask_store(async move {
                let read = async {
                    let object = store.parked_object(&feed, &key).await?;
                    Ok((object, store.parked_changes(&feed, &key, limit).await?))
                };
                Event::ParkedRead(ticket, read.await)
            }),
            Action::Save(then) => {
                self.ask_store(async move { Event::Saved(store.checkpoint(&lease, &then).await) });
            }
            Action::ListParked(pause) => self.ask_store(async move {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Event::Listed(store.parked(&feed, Some(partition)).await)
            }),
            Action::TellWaiting(why) => self.full.tell(why),
            Action::TellCaughtUp => drop(self.setup.news.send(News::CaughtUp(self.setup.lease.id.clone()))),
            Action::Close(closed) => {
                #[cfg(feature = "simulation")]
                if matches!(closed, Closed::Drained) {
                    // Only a deliberate bug closes a partition while calls run.
                    self.calls.detach_all();
                }
                return Some(closed);
            }
        }
        None
    }

    fn ask_store(&mut self, call: impl Future<Output = Event> + Send + 'static) {
        self.store_calls.spawn(call);
    }

    async fn next_event(&mut self) -> (Event, Option<Permit>) {
        let wake_at = self.machine.wake_at();
        let event = tokio::select! {
            // What was read comes first: the reader waits for this partition to ask again.
            biased;
            read = answer_to(&mut self.asked) => {
                self.asked = None;
                Event::Read(match read {
                    Ok(Ok(slice)) => Ok(slice),
                    Ok(Err(error)) => Err(Closed::of_source(&error)),
                    Err(_) => Err(Closed::Failed("the feed's reader ended".to_owned())),
                })
            }
            Some(called) = self.calls.join_next() => match called {
                Ok((event, permit)) => {
                    if let Event::Called(ticket, _) = &event {
                        self.told.remove(ticket);
                    }
                    return (event, permit);
                }
                Err(error) => Event::Broken(format!("a handler's task ended badly: {error}")),
            },
            Some(event) = self.store_calls.join_next() => match event {
                Ok(event) => event,
                Err(error) => Event::Broken(format!("a task of the store ended badly: {error}")),
            },
            Ok(()) = self.setup.asked.changed() => Event::Asked,
            Ok(()) = self.recovered.changed() => Event::Woken,
            Ok(()) = self.setup.closing.changed() => Event::Close,
            Ok(()) = self.setup.trusted_until.changed() => {
                Event::Trusted(*self.setup.trusted_until.borrow_and_update())
            }
            () = tokio::time::sleep_until(wake_at) => Event::Woken,
        };
        (event, None)
    }
}

/// What is handled beyond the checkpoint is known by ids: they mean nothing in a source that does not know how far it was read.
/// One that was restored from a backup draws the same ids for other changes.
async fn refuse_strange_source(setup: &Setup, feed: &dyn Feed, rules: &Rules) -> Result<(), Closed> {
    for upto in setup.lease.done.upto().iter().filter(|_| rules.remembers) {
        let cursor = Cursor { partition: setup.lease.id.partition, after: upto.clone() };
        let read = feed.read(&[cursor], Limit { rows: 1, bytes: 1 }).await;
        read.map(drop).map_err(|error| Closed::of_source(&error))?;
    }
    Ok(())
}

fn rules(setup: &Setup, source: &dyn Feed) -> Rules {
    let (feed, settings) = (&setup.feed, &setup.feed.settings);
    let transactional = matches!(feed.handling, Handling::ExactlyOnce(_));
    let manual_ack = settings.checkpoint == CheckpointPolicy::Manual;
    Rules {
        lease: setup.lease.id.clone(),
        batch: settings.batch,
        concurrency: settings.concurrency,
        enough: settings.enough(),
        retry: settings.retry,
        heal: settings.heal_rules(setup.part.count),
        limits: settings.parked.share(setup.part.count),
        checkpoint: settings.checkpoint,
        chain: settings.chain,
        until: feed.until,
        transactional,
        manual_ack,
        tells: matches!(&feed.handling, Handling::AtLeastOnce(handler) if handler.tells()),
        remembers: !transactional && !manual_ack && !source.ids_come_back(),
        upto: setup.part.upto.clone(),
        idle: settings.idle,
    }
}

fn this_moment() -> At {
    At { now: clock::now(), wall: clock::wall(), jitter: fastrand::f64() }
}

async fn answer_to(
    asked: &mut Option<oneshot::Receiver<ReadAnswer>>,
) -> Result<ReadAnswer, oneshot::error::RecvError> {
    match asked {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
