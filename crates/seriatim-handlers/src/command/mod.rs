//! The handler `command`: a long-lived child process that gets one line of JSON for each change on its standard input, and
//! answers each with a line on its standard output, in order.
//!
//! ```text
//!   first attempts ──▶ the child, many lines ahead ──▶ answered
//!                         └─ it ended with several unanswered: one of them is to blame
//!   further attempts ─────▶ a second child, one line at a time ──▶ answered, or to blame
//! ```
//!
//! - A line goes out when the change before it *of its object* is answered; lines of other objects are sent ahead.
//! - A child that ends, hangs or talks nonsense is killed with everything it started, and another one begins. What it had not
//!   answered is sent again, one line at a time, by a second child: so the change that kills children is found, and only that
//!   one has failed, and nobody else waits for it.
//! - A program that is not there, or that ends before it has read anything, is no change's fault: the feed waits for it.
//! - What it writes to its standard error is in the log.

mod answer;
mod child;
mod conversation;
mod end;
mod program;
mod session;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::{Change, Context, Failure, FeedName, Handler};
use tokio::sync::Mutex;

pub use program::{NoProgram, find};

use conversation::Outcome;
use worker::{Kind, Worker};

/// What a command is run with.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// The feed that it handles, for the log.
    pub feed: FeedName,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder it runs in; a program named with a path is looked for from here.
    pub folder: PathBuf,
    /// How many children share the first attempts.
    pub processes: usize,
    /// At most this many lines of one child are unanswered at the same time.
    pub ahead: usize,
    /// A child that answers nothing for so long is killed.
    pub timeout: Duration,
}

/// Handles changes by a command. See the [module](self).
pub struct Command {
    workers: Vec<Worker>,
    /// Works one change at a time: whoever holds it is alone with the child.
    trouble: Mutex<Worker>,
}

impl Command {
    /// Starts nothing yet: children begin with the first change.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn new(settings: CommandSettings) -> Self {
        let workers =
            (0..settings.processes.max(1)).map(|_| Worker::start(settings.clone(), Kind::Ahead)).collect();
        Command { workers, trouble: Mutex::new(Worker::start(settings, Kind::OneAtATime)) }
    }

    /// Ends the children: each finds its standard input closed, and is killed if it is still there after some seconds.
    pub async fn close(&self) {
        for worker in &self.workers {
            worker.close();
        }
        // Whoever is still alone with a child is not waited for: its call is given up.
        if let Ok(trouble) = self.trouble.try_lock() {
            trouble.close();
            trouble.closed().await;
        }
        for worker in &self.workers {
            worker.closed().await;
        }
    }

    async fn handle_one(&self, change: &Change, context: &Context) -> Result<(), Failure> {
        if context.attempt == 1 {
            let worker = self.workers.iter().min_by_key(|worker| worker.load());
            if let Some(worker) = worker {
                match worker.ask(change).await {
                    Outcome::Answered(answer) => return answer,
                    Outcome::Ended(end) if end.is_certain() => return Err(end.failure()),
                    Outcome::Ended(_) => {}
                }
            }
        }
        match self.trouble.lock().await.ask(change).await {
            Outcome::Answered(answer) => answer,
            Outcome::Ended(end) => Err(end.failure()),
        }
    }
}

#[async_trait]
impl Handler for Command {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        for (index, change) in changes.iter().enumerate() {
            self.handle_one(change, context).await.map_err(|failure| failure.at(index))?;
        }
        Ok(())
    }

    fn time_for(&self, _: usize, _: Duration) -> Duration {
        // A change may wait behind many others. It is the child that is timed, from answer to answer.
        Duration::MAX
    }
}
