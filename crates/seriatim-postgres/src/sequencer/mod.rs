//! **Order.** One sequencer at a time, wherever it runs.
//!
//! The database itself sees to it that only one ticks at once (an advisory lock), and order rests on that alone. One process of the
//! fleet drives it: it looks whether something was committed, often while things happen and some sixty times a second while nothing
//! does, ticks what moved, and names it in one notification. All others only listen, and take over when they hear nothing for two seconds.
//!
//! ```text
//!   sequencer ──look──▶ moved? ──tick, NOTIFY 3,7──▶ readers of journals 3 and 7, in all processes
//!       │                                             (of a few changes it names the keys too: then only their readers)
//!       └──beat, each 0.7 s──▶ the other processes: silent for two seconds, and one of them takes over
//! ```
//!
//! Readers never tick while a sequencer lives. One that has to know that it saw everything looks by itself, and waits for the tick
//! where something is to be ticked.

mod driver;
mod look;
mod news;
mod pace;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use seriatim::clock;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::database::Database;

pub(crate) use look::{Look, covers};
pub(crate) use news::{Share, Subject};

use news::News;

const MOVED: &str = include_str!("../../queries/journal_moved.sql");
const TICK: &str = include_str!("../../queries/journal_tick.sql");

/// How long a feed that would be told of a change waits before it looks all the same. A host looks at each of its feeds so often.
const SLOW: Duration = Duration::from_secs(30);

/// Drives the database's sequencer, or listens to the one that does, for as long as somebody reads; and wakes readers.
#[derive(Debug)]
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    running: OnceLock<()>,
    /// Of those who find no sequencer alive, one ticks at a time.
    ticking: tokio::sync::Mutex<()>,
}

/// What the driver and the readers share.
#[derive(Debug)]
struct Shared {
    database: Database,
    news: watch::Sender<News>,
    /// Whether ticks are told to us, by our own driver or somebody else's.
    state: Mutex<State>,
    /// A reader waits for a tick.
    asked: Notify,
}

/// What is known of the sequencer.
#[derive(Clone, Copy, Debug)]
struct State {
    listening: bool,
    /// When it last gave a sign of life.
    heard: Instant,
}

impl Shared {
    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listening(&self, listening: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).listening = listening;
    }

    fn heard(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).heard = clock::now();
    }
}

impl Sequencer {
    pub(crate) fn new(database: Database) -> Self {
        // Whether there is a sequencer is not known yet: it has its two seconds, as one that falls silent.
        let state = Mutex::new(State { listening: false, heard: clock::now() });
        let (news, asked) = (watch::Sender::new(News::default()), Notify::new());
        let shared = Arc::new(Shared { database, news, state, asked });
        Sequencer { shared, running: OnceLock::new(), ticking: tokio::sync::Mutex::default() }
    }

    /// Starts the driver, if it does not run yet. It ends when this value is dropped.
    pub(crate) fn start(&self) {
        self.running.get_or_init(|| {
            self.shared.heard();
            driver::spawn(Arc::downgrade(&self.shared), self.shared.database.clone());
        });
    }

    /// How often there was news of a capture so far: a read that begins now sees all of it.
    pub(crate) fn told(&self, subject: Option<Subject>) -> u64 {
        self.start();
        self.shared.news.borrow().count(subject)
    }

    /// Returns when there is more news of a capture than a read knew of, for this share of its partitions; after `every` when nobody
    /// tells us, and after a long while all the same.
    pub(crate) async fn news(
        &self,
        subject: Option<Subject>,
        known: u64,
        share: Option<Share<'_>>,
        every: Duration,
    ) {
        self.start();
        let listening = self.shared.state().listening;
        // Not all feeds of all hosts at once.
        let timeout = if listening { SLOW.mul_f64(0.75 + fastrand::f64() / 2.0) } else { every };
        self.wait(timeout, |news| news.is_more_than(known, subject, share)).await;
    }

    /// Whether the sequencer lives, as far as is known, so that ticks are told.
    pub(crate) fn is_heard(&self) -> bool {
        let state = self.shared.state();
        state.listening && state.heard.elapsed() <= pace::SILENT
    }

    /// Returns when there is more news of a capture than this, or after the timeout.
    pub(crate) async fn more_than(&self, subject: Option<Subject>, known: u64, timeout: Duration) {
        self.wait(timeout, |news| news.is_more_than(known, subject, None)).await;
    }

    async fn wait(&self, timeout: Duration, until: impl FnMut(&News) -> bool) {
        let mut news = self.shared.news.subscribe();
        drop(tokio::time::timeout(timeout, news.wait_for(until)).await);
    }

    /// Has the sequencer tick, for a reader that knows that there is something to tick, and waits for it, for `timeout` at most.
    /// Where no sequencer gives a sign of life, ticks instead of it: for all readers of this process at once.
    pub(crate) async fn seek(&self, subject: Subject, known: u64, timeout: Duration) {
        self.start();
        if self.shared.state().heard.elapsed() <= pace::SILENT * 5 / 4 {
            self.shared.asked.notify_one();
            return self.more_than(Some(subject), known, timeout).await;
        }
        let _alone = self.ticking.lock().await;
        if self.shared.news.borrow().count(Some(subject)) > known {
            return;
        }
        match self.shared.database.query("sequencing", TICK, &[]).await {
            Ok(_) => self.shared.news.send_modify(News::of_all),
            Err(error) => {
                tracing::debug!(%error, "cannot tick; trying again");
                tokio::time::sleep(timeout).await;
            }
        }
    }
}

/// Looks at one journal: its newest tick, and whether something is to be ticked.
pub(crate) async fn look_at(
    client: &deadpool_postgres::ClientWrapper,
    database: &Database,
    journal: i64,
) -> Result<Look, tokio_postgres::Error> {
    let statement = client.prepare_cached(&database.sql(MOVED)).await?;
    look(client, &statement, Some(journal), &look::Memory::default().known())
        .await
        .map(|look| look.unwrap_or_else(|seen| Look { seen, journals: Vec::new() }))
}

/// Looks at one journal, or at all. When nothing was committed since the last look, there is only a snapshot.
async fn look(
    client: &Client,
    statement: &tokio_postgres::Statement,
    only: Option<i64>,
    known: &look::Known<'_>,
) -> Result<Result<Look, String>, tokio_postgres::Error> {
    let look::Known { seen, captures, ticks, settled } = known;
    let row = client.query_one(statement, &[&only, seen, captures, ticks, settled]).await?;
    let seen: String = row.get(0);
    let (journals, newest): (Option<Vec<i64>>, Option<Vec<i64>>) = (row.get(1), row.get(2));
    let moved: Option<Vec<bool>> = row.get(3);
    Ok(match journals.zip(newest).zip(moved) {
        Some(((journals, newest), moved)) => {
            let journals = journals.into_iter().zip(newest).zip(moved);
            Ok(Look { seen, journals: journals.map(|((id, tick), moved)| (id, tick, moved)).collect() })
        }
        None => Err(seen),
    })
}
