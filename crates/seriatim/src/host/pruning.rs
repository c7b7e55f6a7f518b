//! Telling the sources what everybody has consumed, so that they can prune.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::FeedRuntime;
use crate::change::Position;
use crate::clock;
use crate::lease::{LeaseId, LeaseView};
use crate::name::FeedName;
use crate::tasks;

/// How often a source is told while positions move.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is told that they do not: others may have moved, and a source that hears nothing takes its consumer for gone.
const STILL: Duration = Duration::from_secs(20);

/// The prunings under way, at most one for each feed.
#[derive(Default)]
pub(super) struct Pruning {
    feeds: BTreeMap<FeedName, Told>,
}

/// What a source was last told, and when.
struct Told {
    positions: Vec<Position>,
    at: Instant,
    task: JoinHandle<()>,
    /// It took it in.
    done: Arc<AtomicBool>,
}

impl Told {
    fn is_due(&self, positions: &[Position], now: Instant) -> bool {
        let known = self.positions == positions && self.done.load(Ordering::Relaxed);
        self.task.is_finished() && now >= self.at + if known { STILL } else { EVERY }
    }
}

/// The lease whose owner tells the source of a feed what is consumed, for all: the first that has one.
pub(super) fn teller<'l>(leases: &'l [LeaseView], feed: &FeedName) -> Option<&'l LeaseId> {
    let owned = leases.iter().find(|lease| lease.id.feed == *feed && lease.owner.is_some());
    owned.map(|lease| &lease.id)
}

impl Pruning {
    /// Tells the source of each feed what is consumed, if it is time.
    pub fn step(
        &mut self,
        feeds: &BTreeMap<FeedName, Arc<FeedRuntime>>,
        leases: &[LeaseView],
        owns: impl Fn(&LeaseId) -> bool,
        now: Instant,
    ) {
        for (name, feed) in feeds {
            if !teller(leases, name).is_some_and(&owns) {
                continue;
            }
            // Those that have ended are where others begin, and those stand there until they do.
            let of_feed = leases.iter().filter(|lease| lease.id.feed == *name);
            let positions: Vec<Position> = of_feed.map(|lease| lease.position.clone()).collect();
            if self.feeds.get(name).is_none_or(|told| told.is_due(&positions, now)) {
                let (feed, done) = (Arc::clone(feed), Arc::new(AtomicBool::new(false)));
                let (of_task, upto) = (Arc::clone(&done), positions.clone());
                let task = tasks::spawn(async move { prune(&feed, &upto, &of_task).await });
                self.feeds.insert(name.clone(), Told { positions, at: now, task, done });
            }
        }
    }

    /// Ends what is under way.
    pub async fn stop(&mut self) {
        for (_, told) in std::mem::take(&mut self.feeds) {
            told.task.abort();
            // It ended, one way or the other.
            drop(told.task.await);
        }
    }
}

/// Prunes until nothing is left to prune, resting four times as long as it works: writers and handlers come first.
async fn prune(feed: &FeedRuntime, positions: &[Position], done: &AtomicBool) {
    loop {
        let began = clock::now();
        match feed.feed.consumed(&feed.consumer, positions).await {
            Ok(0) => return done.store(true, Ordering::Relaxed),
            Ok(_) => tokio::time::sleep(4 * began.elapsed()).await,
            Err(error) => {
                return tracing::warn!(feed = %feed.consumer.feed, %error, "cannot prune; trying again");
            }
        }
    }
}
