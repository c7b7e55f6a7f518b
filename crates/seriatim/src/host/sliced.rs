//! A feed as its partitions read it: one reader for all that were made together.

use std::sync::{Arc, Mutex, PoisonError};

use super::FeedRuntime;
use super::reader::{self, ReaderHandle};
use crate::change::Position;
use crate::lease::Part;
use crate::name::FeedName;
use crate::source::{Feed, Sliced, SourceError};
use crate::store::Trouble;

/// A feed as partitions that were made together read it.
pub(super) struct FeedSlice {
    pub feed: Arc<dyn Feed>,
    pub reader: ReaderHandle,
}

/// What tells readers apart: the first partition, how many there are, and where they end.
type Which = (u32, u32, Option<Position>);

/// The readers of a feed. There is more than one only while the number of its partitions changes.
#[derive(Default)]
pub(super) struct Readers(tokio::sync::Mutex<Vec<(Which, Arc<FeedSlice>)>>);

impl FeedRuntime {
    /// The feed as the partitions of this part read it.
    pub(super) async fn slice(&self, part: &Part) -> Result<Arc<FeedSlice>, SourceError> {
        let which = (part.first, part.count, part.upto.clone());
        let mut readers = self.readers.0.lock().await;
        if let Some((_, known)) = readers.iter().find(|(known, _)| *known == which) {
            return Ok(Arc::clone(known));
        }
        let feed =
            Sliced::of(&self.feed, part).ok_or_else(|| cannot_be_divided(&self.consumer.feed, part))?;
        if feed.partitions() != self.feed.partitions() {
            feed.open(&self.consumer, &self.settings.start).await?;
        }
        let reader = reader::spawn(Arc::clone(&feed), self.settings.idle, self.pause.subscribe());
        let slice = Arc::new(FeedSlice { feed, reader });
        // Those that no partition uses any more end here.
        readers.retain(|(_, slice)| Arc::strong_count(slice) > 1);
        readers.push((which, Arc::clone(&slice)));
        Ok(slice)
    }
}

fn cannot_be_divided(feed: &FeedName, part: &Part) -> SourceError {
    let count = part.count;
    SourceError::needs_attention(
        format!("feed {feed} has {count} partitions in the store, and its source cannot be divided so"),
        format!("set partitions = {count}, or give the feed a new name to start it afresh"),
    )
}

/// A number of partitions that a host is to bring about, once.
#[derive(Default)]
pub(super) struct WantedChange(Mutex<Wanted>);

#[derive(Default)]
struct Wanted {
    count: Option<u32>,
    waits: Option<String>,
}

impl WantedChange {
    pub fn to(count: Option<u32>) -> Self {
        WantedChange(Mutex::new(Wanted { count, waits: None }))
    }

    pub fn count(&self) -> Option<u32> {
        self.wanted().count
    }

    /// It is brought about, or somebody else has brought about another one.
    pub fn is_done(&self) {
        *self.wanted() = Wanted::default();
    }

    /// It has to wait for this; `None` when it does not wait.
    pub fn waits_for(&self, what: Option<&str>) {
        self.wanted().waits = what.map(str::to_owned);
    }

    pub fn trouble(&self, feed: &FeedName) -> Option<Trouble> {
        let wanted = self.wanted();
        let (count, waits) = (wanted.count?, wanted.waits.as_ref()?);
        Some(Trouble {
            feed: feed.clone(),
            what: format!("the change to {count} partitions waits: {waits}"),
            remedy: "wait; it happens by itself".to_owned(),
            since: None,
        })
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
