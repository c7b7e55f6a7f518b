//! **Order.** One sequencer at a time, wherever it runs.
//!
//! The database itself sees to it that only one ticks at once (an advisory lock), and order rests on that alone. This driver
//! only calls it: often while things happen, seldom while nothing does, and hardly at all while another process is at it.

mod driver;
mod pace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::database::Database;

pub(crate) use pace::BUSY;

/// Calls the database's sequencer for as long as somebody reads, and wakes readers.
#[derive(Debug)]
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    running: OnceLock<()>,
}

/// What the driver and the readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub database: Database,
    /// How often there was news.
    pub news: watch::Sender<u64>,
    /// Whether somebody else's ticks are told to us.
    pub listening: AtomicBool,
}

impl Sequencer {
    pub(crate) fn new(database: Database) -> Self {
        let shared = Shared { database, news: watch::Sender::new(0), listening: AtomicBool::new(false) };
        Sequencer { shared: Arc::new(shared), running: Default::default() }
    }

    /// Starts the driver, if it does not run yet. It ends when this value is dropped.
    pub(crate) fn start(&self) {
        self.running
            .get_or_init(|| driver::spawn(Arc::downgrade(&self.shared), self.shared.database.clone()));
    }

    /// How often there was news so far: a read that begins now sees all of it.
    pub(crate) fn told(&self) -> u64 {
        self.start();
        *self.shared.news.borrow()
    }

    /// Says that somebody ticked.
    pub(crate) fn tell(&self) {
        self.shared.news.send_modify(|news| *news += 1);
    }

    /// Returns when there is more news than a read knew of, at the latest after `timeout`; after `every` when nobody tells us.
    pub(crate) async fn news(&self, known: u64, every: Duration, timeout: Duration) {
        self.start();
        let mut news = self.shared.news.subscribe();
        let told = self.shared.listening.load(Ordering::Relaxed);
        let timeout = if told { timeout } else { timeout.min(every) };
        drop(tokio::time::timeout(timeout, news.wait_for(|news| *news > known)).await);
    }
}
