//! How a processor wants its signals handled.

use std::time::Duration;

/// What a run that timed out becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// It runs again: its effect may happen twice.
    #[default]
    Rerun,
    /// It is unknown until somebody says whether it took effect.
    Unknown,
}

/// What happens to a run that takes longer than `max_processing_time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// It goes on. If nobody took over in the meantime, its completion counts; otherwise it is refused.
    #[default]
    Finish,
    /// Its future is dropped just before others may take over: no two runs of a signal are ever alive together.
    Stop,
}

/// How a processor wants its signals handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most time that a run takes. After it, the run is taken for dead.
    pub max_processing_time: Duration,
    /// After how long a completed signal may run again; `None` for never.
    pub expires_after: Option<Duration>,
    /// How long to wait for somebody else's run; `None` for twice `max_processing_time`.
    pub max_wait: Option<Duration>,
    /// How soon to look again at somebody else's run, at first.
    pub poll_first: Duration,
    /// How seldom to look at most: each pause is twice the one before.
    pub poll_longest: Duration,
    /// Whether runs give signs of life, so that they may take longer than `max_processing_time`.
    pub heartbeat: bool,
    /// What a run that timed out becomes.
    pub on_timeout: OnTimeout,
    /// What happens to a run that takes too long.
    pub overrun: Overrun,
    /// The longest result, in bytes, that is kept.
    pub result_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_processing_time: Duration::from_secs(30),
            expires_after: Some(Duration::from_secs(30 * 24 * 3600)),
            max_wait: None,
            poll_first: Duration::from_millis(20),
            poll_longest: Duration::from_secs(1),
            heartbeat: false,
            on_timeout: OnTimeout::Rerun,
            overrun: Overrun::Finish,
            // A DynamoDB item takes 400 KB, keys and all.
            result_limit: 256 * 1024,
        }
    }
}

impl Settings {
    /// How long to wait for somebody else's run.
    pub fn patience(&self) -> Duration {
        self.max_wait.unwrap_or(self.max_processing_time.saturating_mul(2))
    }
}
