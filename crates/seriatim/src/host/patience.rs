//! How long a host tries that is to handle what is there, and end.

use std::sync::Arc;
use std::time::Duration;

use super::{FeedRuntime, HostError, Stats, Unfinished, Until};
use crate::clock;

/// How long a host tries that is to handle what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until nothing has moved for so long: nothing handled, skipped, parked or checkpointed. A call that may take longer, and
    /// has not failed, is waited for.
    WithoutProgress(Duration),
    /// So long in all.
    Within(Duration),
}

impl Default for Patience {
    fn default() -> Self {
        Patience::WithoutProgress(Duration::from_secs(300))
    }
}

/// How often it is looked whether something has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a host or a worker looks like to whoever waits for it.
pub(crate) struct Seen {
    /// Moves with everything that is done.
    pub progress: u64,
    /// Moves with every checkpoint: while nothing fails, it shows how far is read. Otherwise it may only say what failed.
    pub checkpoints: u64,
    /// Something fails, so that what is not done is not just slow.
    pub fails: bool,
}

impl Seen {
    fn has_moved_since(&self, before: &Seen) -> bool {
        self.progress != before.progress || (!self.fails && self.checkpoints != before.checkpoints)
    }
}

impl Patience {
    /// Returns when it is over, where one call may take so long.
    pub(crate) async fn over(self, call: Duration, look: impl Fn() -> Seen) {
        let time = match self {
            Patience::Within(time) => return tokio::time::sleep(time).await,
            Patience::WithoutProgress(time) => time,
        };
        let (mut seen, mut moved) = (look(), clock::now());
        loop {
            tokio::time::sleep(LOOK_EVERY.min(time)).await;
            let now = look();
            let bound = if now.fails { time } else { time.max(call) };
            if now.has_moved_since(&seen) {
                (seen, moved) = (now, clock::now());
            } else if moved.elapsed() >= bound {
                return;
            }
        }
    }
}

/// Returns when a host is out of patience that is to handle what is there; never for any other.
pub(super) async fn out_of(until: Until, patience: Patience, feeds: &[Arc<FeedRuntime>]) -> Unfinished {
    if until != Until::CaughtUp {
        return std::future::pending().await;
    }
    let timeout = feeds.iter().map(|feed| feed.settings.timeout).max().unwrap_or_default();
    let look = || Seen {
        progress: sum(feeds, of_stats),
        checkpoints: sum(feeds, Stats::checkpoints),
        fails: feeds.iter().any(|feed| feed.target.outage().is_some()),
    };
    patience.over(timeout, look).await;
    Unfinished { patience, troubles: feeds.iter().flat_map(|feed| feed.troubles()).collect() }
}

/// How a host has ended: before its time, as asked for or because it gave up, or with all handled that could be.
pub(super) fn ended(
    early: Option<&Result<(), Unfinished>>,
    until: Until,
    feeds: &[Arc<FeedRuntime>],
) -> Result<(), HostError> {
    match early {
        Some(why) => why.clone().map_err(HostError::Unfinished),
        None if until == Until::CaughtUp => none_is_parked(feeds),
        None => Ok(()),
    }
}

fn none_is_parked(feeds: &[Arc<FeedRuntime>]) -> Result<(), HostError> {
    let parked = feeds.iter().map(|feed| (feed.consumer.feed.clone(), feed.parked_objects()));
    let parked: Vec<_> = parked.filter(|(_, objects)| *objects > 0).collect();
    if parked.is_empty() { Ok(()) } else { Err(HostError::Parked(parked)) }
}

fn sum(feeds: &[Arc<FeedRuntime>], of: impl Fn(&Stats) -> u64) -> u64 {
    feeds.iter().map(|feed| of(&feed.stats)).fold(0, u64::wrapping_add)
}

/// What is done of one feed or queue.
pub(crate) fn of_stats(stats: &Stats) -> u64 {
    [stats.handled(), stats.skipped(), stats.parked(), stats.acquired()]
        .into_iter()
        .fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const CALL: Duration = Duration::from_secs(600);

    async fn over(patience: Patience, look: impl Fn() -> Seen) -> u64 {
        let began = clock::now();
        patience.over(CALL, look).await;
        (clock::now() - began).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_over_when_nothing_moves_for_so_long() {
        let (patience, began) = (Patience::default(), clock::now());
        // It moves in the first ten minutes.
        let minutes = || ((clock::now() - began).as_secs() / 60).min(10);
        let took = over(patience, || Seen { progress: minutes(), checkpoints: 0, fails: true }).await;
        assert!((899..=901).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_may_take_longer_is_waited_for_unless_it_fails() {
        let still = |fails| move || Seen { progress: 1, checkpoints: 0, fails };
        assert_eq!(over(Patience::default(), still(true)).await, 300);
        assert_eq!(over(Patience::default(), still(false)).await, 600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_checkpoint_is_progress_unless_it_tells_what_fails() {
        let began = clock::now();
        let minutes = || ((clock::now() - began).as_secs() / 60).min(10);
        let still = |fails| move || Seen { progress: 1, checkpoints: minutes(), fails };
        assert_eq!(over(Patience::default(), still(true)).await, 300);
        assert!(over(Patience::default(), still(false)).await >= 600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_is_one_whatever_moves() {
        let looks = Cell::new(0);
        let moves = || {
            looks.set(looks.get() + 1);
            Seen { progress: looks.get(), checkpoints: 0, fails: false }
        };
        assert_eq!(over(Patience::Within(Duration::from_secs(10)), moves).await, 10);
    }
}
