//! Which queues are paused: a worker of a paused queue rests until it is resumed. Feeds that are no queues hear of it by their host.

use std::collections::BTreeSet;
use std::time::Duration;

use seriatim::FeedName;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::databases::{self, Database, OpenStore};
use crate::error::Result;

/// How often it is looked at, and how often a store is looked for that nobody has made yet.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_FOR_STORE_EVERY: Duration = Duration::from_secs(5);

/// What is paused now, looked at for as long as this lives.
pub struct Pauses {
    now: watch::Receiver<BTreeSet<FeedName>>,
    looking: JoinHandle<()>,
}

impl Pauses {
    /// Looks at once, and from then on again and again.
    pub async fn begin(config: &Config) -> Result<Self> {
        let mut store = databases::existing_store(&config.store).await?;
        let first = match &store {
            Some(store) => names(store).await?,
            None => BTreeSet::new(),
        };
        let (tell, now) = watch::channel(first);
        let database = config.store.clone();
        let looking = tokio::spawn(async move {
            while !tell.is_closed() {
                look(&database, &mut store, &tell).await;
            }
        });
        Ok(Pauses { now, looking })
    }

    /// The queues that are paused, as it is now and later.
    pub fn now(&self) -> watch::Receiver<BTreeSet<FeedName>> {
        self.now.clone()
    }

    /// Those of one queue.
    pub fn of(&self, queue: &FeedName) -> Pause {
        Pause { queue: queue.clone(), now: self.now.clone() }
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

async fn look(database: &Database, store: &mut Option<OpenStore>, tell: &watch::Sender<BTreeSet<FeedName>>) {
    let Some(open) = store else {
        tokio::time::sleep(LOOK_FOR_STORE_EVERY).await;
        *store = databases::existing_store(database).await.ok().flatten();
        return;
    };
    tokio::time::sleep(LOOK_EVERY).await;
    // A store that is away leaves everything as it was.
    if let Ok(paused) = names(open).await {
        tell.send_if_modified(|now| std::mem::replace(now, paused.clone()) != paused);
    }
}

async fn names(store: &OpenStore) -> Result<BTreeSet<FeedName>> {
    Ok(store.paused().await?.into_iter().map(|paused| paused.feed).collect())
}

/// Whether one queue is paused.
pub struct Pause {
    queue: FeedName,
    now: watch::Receiver<BTreeSet<FeedName>>,
}

impl Pause {
    /// Whether it is.
    pub fn is_on(&self) -> bool {
        self.now.borrow().contains(&self.queue)
    }

    /// Returns when it is paused, or is not.
    pub async fn until(&mut self, wanted: bool) {
        let queue = self.queue.clone();
        if self.now.wait_for(|now| now.contains(&queue) == wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
