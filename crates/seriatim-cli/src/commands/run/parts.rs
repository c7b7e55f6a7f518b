//! The parts of a host that run beside each other: its feeds together, and a worker for each of its queues.
//!
//! A part that stops by its own rule (`then = "stop"`) leaves the others alone. A part that cannot run (another number of partitions, a
//! name that is taken) ends the host, as it would if it were alone: nobody would notice a half that is missing.

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::error::{Error, Result};

/// How a part ended.
pub enum Ended {
    /// It was asked to, or all is handled.
    Done,
    /// All its feeds have stopped by their own rule; the log names them already.
    Stopped(Error),
    /// It could not run.
    Failed(Error),
}

/// Parts that run beside each other.
pub struct Parts {
    running: JoinSet<Ended>,
    end: watch::Sender<bool>,
    tally: Tally,
}

impl Parts {
    /// No parts yet.
    pub fn new() -> Self {
        Parts { running: JoinSet::new(), end: watch::Sender::new(false), tally: Tally::default() }
    }

    /// Returns once the parts are told to end.
    pub fn told(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.end.subscribe();
        async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the parts are told to end.
    pub fn is_ending(&self) -> watch::Receiver<bool> {
        self.end.subscribe()
    }

    /// Starts a part.
    pub fn add(&mut self, part: impl Future<Output = Ended> + Send + 'static) {
        self.tally.parts += 1;
        self.running.spawn(part);
    }

    /// Runs them all until they have ended; they are told to when `ending` resolves, or when one of them cannot run.
    pub async fn run(mut self, once: bool, ending: impl Future<Output = ()>) -> Result<()> {
        tokio::pin!(ending);
        let mut asked = false;
        loop {
            tokio::select! {
                () = &mut ending, if !asked => {
                    asked = true;
                    self.end.send_replace(true);
                }
                ended = self.running.join_next() => match ended {
                    None => return self.tally.result(once),
                    Some(ended) => self.note(ended),
                },
            }
        }
    }

    fn note(&mut self, ended: Result<Ended, JoinError>) {
        let ended = ended.unwrap_or_else(|panic| {
            Ended::Failed(
                Error::failed("a part of the host ended by a fault of the program").caused_by(panic),
            )
        });
        if let Ended::Failed(error) = &ended {
            if !self.running.is_empty() {
                let help = error.remedy();
                tracing::error!(help, "{}; the other feeds of this host end too", error.sentence());
            }
            self.end.send_replace(true);
        }
        self.tally.note(ended);
    }
}

/// What became of the parts.
#[derive(Default)]
struct Tally {
    parts: usize,
    stopped: Vec<Error>,
    failed: Option<Error>,
}

impl Tally {
    fn note(&mut self, ended: Ended) {
        match ended {
            Ended::Done => {}
            Ended::Stopped(error) => self.stopped.push(error),
            Ended::Failed(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }

    /// A host that was to handle what is there fails if any part stopped; one that runs on, only if every part did.
    fn result(mut self, once: bool) -> Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.stopped.len() {
            stopped if stopped > 0 && (once || stopped == self.parts) => {
                for other in &self.stopped[1..] {
                    tracing::error!(help = other.remedy(), "{}", other.sentence());
                }
                Err(self.stopped.remove(0))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(ended: Vec<Ended>) -> Tally {
        let mut tally = Tally { parts: ended.len(), ..Tally::default() };
        ended.into_iter().for_each(|ended| tally.note(ended));
        tally
    }

    fn stopped() -> Ended {
        Ended::Stopped(Error::failed("stopped"))
    }

    #[test]
    fn a_host_fails_when_all_its_parts_have_stopped() {
        assert!(tally(vec![stopped(), Ended::Done]).result(false).is_ok());
        assert!(tally(vec![stopped(), stopped()]).result(false).is_err());
        assert!(tally(vec![stopped(), Ended::Done]).result(true).is_err());
        assert!(tally(vec![Ended::Done, Ended::Done]).result(true).is_ok());
    }

    #[test]
    fn the_first_part_that_could_not_run_is_the_reason() {
        let failed = |what: &str| Ended::Failed(Error::usage(what));
        let reason = tally(vec![stopped(), failed("one"), failed("two"), Ended::Done]).result(false);
        assert_eq!(reason.unwrap_err().sentence(), "one");
    }

    #[tokio::test]
    async fn a_part_that_cannot_run_ends_the_others() {
        let mut parts = Parts::new();
        let told = parts.told();
        parts.add(async {
            told.await;
            Ended::Done
        });
        parts.add(async { Ended::Failed(Error::failed("taken")) });
        assert_eq!(parts.run(false, std::future::pending()).await.unwrap_err().sentence(), "taken");
    }
}
