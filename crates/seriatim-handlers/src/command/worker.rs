//! Keeps one child running for as long as there is something to ask it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seriatim::handler::Backoff;
use seriatim::{Change, Failure};
use tokio::sync::{mpsc, oneshot, watch};

use super::CommandSettings;
use super::child::Child;
use super::conversation::{Call, Outcome};
use super::session::Session;

/// The pauses before a child is started again whose predecessors died without a single answer.
const RESTARTS: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// A child for troubled changes ends when there were none for so long.
const TROUBLE_IDLE: Duration = Duration::from_secs(10);

/// How a worker talks with its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Many lines ahead of the answers.
    Ahead,
    /// One line, one answer.
    OneAtATime,
}

/// Sends changes to a child, which it starts, and starts again.
pub struct Worker {
    /// Taken when it is closed.
    calls: Mutex<Option<mpsc::Sender<Call>>>,
    asking: AtomicUsize,
    running: watch::Receiver<()>,
}

impl Worker {
    /// Begins with the first change it is asked about.
    pub fn start(settings: CommandSettings, kind: Kind) -> Self {
        let (sender, calls) = mpsc::channel(settings.ahead.max(1));
        let (alive, running) = watch::channel(());
        tokio::spawn(async move {
            work(settings, kind, calls).await;
            drop(alive);
        });
        Worker { calls: Mutex::new(Some(sender)), asking: AtomicUsize::new(0), running }
    }

    /// How many changes wait for an answer.
    pub fn load(&self) -> usize {
        self.asking.load(Ordering::Relaxed)
    }

    /// Asks the child to handle a change.
    pub async fn ask(&self, change: &Change) -> Outcome {
        let _asking = Asking::of(&self.asking);
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(calls) = calls else { return closed() };
        // Room first, so that no more lines are in memory than can be sent.
        let Ok(room) = calls.reserve().await else { return closed() };
        let (reply, outcome) = oneshot::channel();
        room.send(Call { id: change.id, line: change.to_json(), reply });
        outcome.await.unwrap_or_else(|_| closed())
    }

    /// Asks nothing any more.
    pub fn close(&self) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Waits until the child has ended.
    pub async fn closed(&self) {
        // An error is the news: the other side is gone.
        while self.running.clone().changed().await.is_ok() {}
    }
}

fn closed() -> Outcome {
    Outcome::Answered(Err(Failure::target("the command is closed")))
}

struct Asking<'a>(&'a AtomicUsize);

impl<'a> Asking<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Asking(count)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn work(settings: CommandSettings, kind: Kind, mut calls: mpsc::Receiver<Call>) {
    let (ahead, idle) = match kind {
        Kind::Ahead => (settings.ahead, None),
        Kind::OneAtATime => (1, Some(TROUBLE_IDLE)),
    };
    let mut fruitless = 0;
    while let Some(call) = calls.recv().await {
        if fruitless > 0 {
            tokio::time::sleep(RESTARTS.pause(fruitless, 1.0)).await;
        }
        match Child::start(&settings) {
            Err(why) => refuse(call, &mut calls, &why),
            Ok(child) => {
                let lesson = Session::new(&settings, child, ahead, idle).run(call, &mut calls).await;
                fruitless = if lesson.answers > 0 { 0 } else { fruitless + 1 };
                if lesson.closing {
                    return;
                }
            }
        }
    }
}

/// Tells everybody who waits that the command cannot be started.
fn refuse(first: Call, calls: &mut mpsc::Receiver<Call>, why: &str) {
    let mut next = Some(first);
    while let Some(call) = next {
        drop(call.reply.send(Outcome::Answered(Err(Failure::target(why.to_owned())))));
        next = calls.try_recv().ok();
    }
}
