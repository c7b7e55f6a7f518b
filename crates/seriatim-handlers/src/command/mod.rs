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
//! - It dies with this process, however that ends: see [`launch`](launch()) and the guard beside it.

mod answer;
mod batch;
mod child;
mod conversation;
mod stdout_reader;
mod end;
mod guard;
mod launch;
mod program;
mod session;
mod starter;
mod deferred_failures;
mod worker;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use seriatim::{Change, Context, Failure, FeedName, Handler};
use tokio::sync::Mutex;

pub(crate) use batch::Progress;
pub use launch::launch;
pub use program::{NoProgram, find};

use crate::{Envelope, Sink};
use deferred_failures::DeferredFailures;
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
    /// Variables of this process's environment that the command does not get.
    pub withheld: Vec<OsString>,
    /// The form of changes.
    pub envelope: Envelope,
    /// A program and its first arguments that call [`launch`] with this process's id and the command, which follow: so the system
    /// kills the command with this process. Empty where there is none.
    pub launcher: Vec<OsString>,
}

impl CommandSettings {
    /// What starts the program at this path: the launcher, or itself.
    fn launching(&self, path: &Path) -> tokio::process::Command {
        let Some((launcher, arguments)) = self.launcher.split_first() else {
            return tokio::process::Command::new(path);
        };
        let mut command = tokio::process::Command::new(launcher);
        command.args(arguments).arg(std::process::id().to_string()).arg(path);
        command
    }

    /// The program and the files of the folder that it is given; other arguments may be secrets, and are left out.
    fn shown(&self) -> String {
        let words = self.command.iter().enumerate().map(|(place, word)| {
            let is_file = place == 0 || self.folder.join(word).is_file();
            if is_file { word.as_str() } else { "…" }
        });
        let mut shown: Vec<&str> = words.collect();
        shown.dedup_by(|next, before| *next == "…" && *before == "…");
        shown.join(" ")
    }
}

/// Who is told the place of each change that is done.
type Done<'a> = &'a (dyn Fn(usize) + Sync);

/// Handles changes by a command. See the [module](self).
pub struct Command {
    workers: Vec<Worker>,
    /// Works one change at a time: whoever holds it is alone with the child.
    trouble: Mutex<Worker>,
    untold: DeferredFailures,
}

impl Command {
    /// Starts nothing yet: children begin with the first change.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn new(settings: CommandSettings) -> Self {
        let workers =
            (0..settings.processes.max(1)).map(|_| Worker::start(settings.clone(), Kind::Ahead)).collect();
        let trouble = Mutex::new(Worker::start(settings, Kind::OneAtATime));
        Command { workers, trouble, untold: DeferredFailures::default() }
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

    /// Has the child handle these changes, each of another object, and notes what it answers.
    async fn first_try(
        &self,
        changes: &[Change],
        wave: &[usize],
        progress: &mut Progress,
        done: Option<Done<'_>>,
    ) {
        let Some(worker) = self.workers.iter().min_by_key(|worker| worker.load()) else { return };
        let asked: Vec<&Change> = wave.iter().map(|place| &changes[*place]).collect();
        let tell = done.map(|done| move |answered: usize| done(wave[answered]));
        let reply = worker.ask(&asked, tell.as_ref().map(|tell| tell as Done<'_>)).await;
        let answered = reply.answers.len();
        for (place, answer) in wave.iter().zip(reply.answers) {
            progress.note(*place, answer);
        }
        match reply.ended {
            None => {}
            Some(end) if end.is_certain() => progress.note(wave[answered], Err(end.failure())),
            Some(_) => self.one_at_a_time(changes, &wave[answered..], progress, done).await,
        }
    }

    /// Has the second child handle them one by one: if it ends then, it is known which one was to blame.
    async fn one_at_a_time(
        &self,
        changes: &[Change],
        wave: &[usize],
        progress: &mut Progress,
        done: Option<Done<'_>>,
    ) {
        for place in wave {
            let tell = done.map(|done| move |_: usize| done(*place));
            let tell = tell.as_ref().map(|tell| tell as Done<'_>);
            let reply = self.trouble.lock().await.ask(&[&changes[*place]], tell).await;
            let end = reply.ended.map(|end| Err(end.failure()));
            if let Some(answer) = reply.answers.into_iter().next().or(end) {
                progress.note(*place, answer);
            }
            if progress.is_hopeless() {
                return;
            }
        }
    }

    async fn work(
        &self,
        changes: &[Change],
        context: &Context,
        done: Option<Done<'_>>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::of(changes);
        if context.attempt == 1 {
            self.untold.tell(&context.lease, changes, &mut progress);
        }
        while let Some(wave) = progress.next_wave() {
            match context.attempt {
                1 => self.first_try(changes, &wave, &mut progress, done).await,
                _ => self.one_at_a_time(changes, &wave, &mut progress, done).await,
            }
        }
        progress.result().map_err(|failed| {
            let (failure, others) = *failed;
            self.untold
                .keep(&context.lease, others.into_iter().map(|(place, other)| (changes[place].id, other)));
            failure
        })
    }
}

#[async_trait]
impl Sink for Command {
    async fn close(&self) {
        Command::close(self).await;
    }
}

#[async_trait]
impl Handler for Command {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        self.work(changes, context, None).await
    }

    async fn handle_telling(
        &self,
        changes: &[Change],
        context: &Context,
        done: Done<'_>,
    ) -> Result<(), Failure> {
        self.work(changes, context, Some(done)).await
    }

    fn tells(&self) -> bool {
        true
    }

    fn time_for(&self, _: usize, _: Duration) -> Duration {
        // A change may wait behind many others. It is the child that is timed, from answer to answer.
        Duration::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_may_be_secrets_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("handle.py"), "").unwrap();
        let command = ["python3", "handle.py", "--password", "s3cret"].map(str::to_owned).to_vec();
        let settings = CommandSettings {
            feed: FeedName::new("f").unwrap(),
            command,
            folder: folder.path().to_owned(),
            processes: 1,
            ahead: 1,
            timeout: Duration::from_secs(1),
            withheld: Vec::new(),
            envelope: Envelope::default(),
            launcher: Vec::new(),
        };
        assert_eq!(settings.shown(), "python3 handle.py …");
    }
}
