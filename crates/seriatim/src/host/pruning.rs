//! Telling the sources what everybody has consumed, so that they can prune.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::FeedRuntime;
use crate::change::Position;
use crate::clock;
use crate::lease::{LeaseId, LeaseView};
use crate::name::FeedName;
use crate::tasks;

/// How often a source is told.
const EVERY: Duration = Duration::from_secs(1);

/// The prunings under way, at most one for each feed.
#[derive(Default)]
pub(super) struct Pruning {
    feeds: BTreeMap<FeedName, (Instant, JoinHandle<()>)>,
}

impl Pruning {
    /// Tells the source of each feed what is consumed, if it is time. The owner of a feed's first partition does it for all.
    pub fn step(
        &mut self,
        feeds: &BTreeMap<FeedName, Arc<FeedRuntime>>,
        leases: &[LeaseView],
        owns: impl Fn(&LeaseId) -> bool,
        now: Instant,
    ) {
        for (name, feed) in feeds {
            let of_feed = leases.iter().filter(|lease| lease.id.feed == *name);
            let mine = of_feed.clone().next().is_some_and(|first| owns(&first.id));
            let due =
                self.feeds.get(name).is_none_or(|(last, task)| task.is_finished() && now >= *last + EVERY);
            if mine && due {
                let positions: Vec<Position> = of_feed.map(|lease| lease.position.clone()).collect();
                let feed = Arc::clone(feed);
                let task = tasks::spawn(async move { prune(&feed, &positions).await });
                self.feeds.insert(name.clone(), (now, task));
            }
        }
    }

    /// Ends what is under way.
    pub async fn stop(&mut self) {
        for (_, (_, task)) in std::mem::take(&mut self.feeds) {
            task.abort();
            // It ended, one way or the other.
            drop(task.await);
        }
    }
}

/// Prunes until nothing is left to prune, resting four times as long as it works: writers and handlers come first.
async fn prune(feed: &FeedRuntime, positions: &[Position]) {
    loop {
        let began = clock::now();
        match feed.feed.consumed(&feed.consumer, positions).await {
            Ok(0) => return,
            Ok(_) => tokio::time::sleep(4 * began.elapsed()).await,
            Err(error) => {
                return tracing::warn!(feed = %feed.consumer.feed, %error, "cannot prune; trying again");
            }
        }
    }
}
