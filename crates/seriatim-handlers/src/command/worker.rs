//! Keeps one child running for as long as there is something to ask it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seriatim::handler::Backoff;
use seriatim::{Change, Failure, clock};
use tokio::sync::{mpsc, oneshot, watch};

use super::child::Child;
use super::conversation::{Call, Reply};
use super::session::Session;
use super::{CommandSettings, Done};
use crate::Envelope;

/// The pauses, from end to start, before a child is started again whose predecessors died without a single answer. A feed makes longer
/// ones by itself, and says so in its log: these are for whoever asks again at once.
const RESTARTS: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(1) };

/// A child for troubled changes ends when there were none for so long.
const TROUBLE_IDLE: Duration = Duration::from_secs(10);

/// So many calls wait for their child as lines of JSON; all others as what they are.
const READY: usize = 4;

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
    envelope: Envelope,
}

impl Worker {
    /// Begins with the first change it is asked about.
    pub fn start(settings: CommandSettings, kind: Kind) -> Self {
        let (sender, calls) = mpsc::channel(READY);
        let (alive, running) = watch::channel(());
        let envelope = settings.envelope.clone();
        tokio::spawn(async move {
            work(settings, kind, calls).await;
            drop(alive);
        });
        Worker { calls: Mutex::new(Some(sender)), asking: AtomicUsize::new(0), running, envelope }
    }

    /// How many changes wait for an answer.
    pub fn load(&self) -> usize {
        self.asking.load(Ordering::Relaxed)
    }

    /// Asks the child to handle these changes, each of another object, and tells the place of each as soon as it is done, if
    /// somebody wants to know.
    pub async fn ask(&self, changes: &[&Change], tell: Option<Done<'_>>) -> Reply {
        let _asking = Asking::of(&self.asking);
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(calls) = calls else { return refused("the command is closed") };
        // Room first, so that no more lines are in memory than are sent soon.
        let Ok(room) = calls.reserve().await else { return refused("the command is closed") };
        let (reply, outcome) = oneshot::channel();
        // Each word wakes this task: it is not said to nobody.
        let (done, heard) = tell.map(|_| mpsc::unbounded_channel()).unzip();
        let mut lines = Vec::with_capacity(512);
        for (index, change) in changes.iter().enumerate() {
            if index == 1 {
                // Most changes of a feed are about as long as the first: growing would copy them all.
                lines.reserve((lines.len() + lines.len() / 8) * changes.len());
            }
            self.envelope.write(change, &mut lines);
            lines.push(b'\n');
        }
        room.send(Call { ids: changes.iter().map(|change| change.id).collect(), lines, reply, done });
        let replied = match tell.zip(heard) {
            Some((tell, heard)) => told(heard, tell, outcome).await,
            None => outcome.await.ok(),
        };
        replied.unwrap_or_else(|| refused("the command is closed"))
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

/// Passes on what is done until the whole is.
async fn told(
    mut heard: mpsc::UnboundedReceiver<usize>,
    tell: Done<'_>,
    mut outcome: oneshot::Receiver<Reply>,
) -> Option<Reply> {
    loop {
        tokio::select! {
            // All that is done is told before the whole is.
            biased;
            Some(place) = heard.recv() => tell(place),
            replied = &mut outcome => return replied.ok(),
        }
    }
}

/// Nothing was done, and no change is to blame.
fn refused(why: &str) -> Reply {
    Reply { answers: vec![Err(Failure::target(why.to_owned()))], ended: None }
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
    let (mut fruitless, mut ended) = (0, clock::now());
    while let Some(call) = calls.recv().await {
        if fruitless > 0 {
            tokio::time::sleep_until(ended + RESTARTS.pause(fruitless, 1.0)).await;
        }
        match Child::start(&settings) {
            Err(why) => refuse(call, &mut calls, &why),
            Ok(child) => {
                let lesson = Session::new(&settings, child, ahead, idle).run(call, &mut calls).await;
                fruitless = if lesson.answers > 0 { 0 } else { fruitless + 1 };
                ended = clock::now();
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
        drop(call.reply.send(refused(why)));
        next = calls.try_recv().ok();
    }
}
