//! The contract of a sink: somewhere outside of the databases where changes go.

use async_trait::async_trait;
use serde::Serialize;
use seriatim::lease::Lease;
use seriatim::value::Key;
use seriatim::{Failure, Handler};

use crate::memory::Mark;

/// Somewhere that changes go.
///
/// A sink is a [`Handler`]: it takes batches, the changes of one key in order, each with its id and under a lease with its epoch.
/// What a sink adds is a statement of what it does about changes that come again. The guarantee of a feed is worded by that:
/// by what the sink itself enforces, never by what its consumers should do.
///
/// ```text
///   knows nothing of before      at-least-once    a change that comes again is handled again, with the same id
///   knows it for a while         deduplicated     a change that comes again in that time is dropped
///   knows it for good            exactly-once     a change that comes again is dropped, whenever it comes
/// ```
#[async_trait]
pub trait Sink: Handler {
    /// The guarantee that this kind of sink gives by itself.
    fn guarantee() -> Guarantee
    where
        Self: Sized,
    {
        Guarantee::AtLeastOnce
    }

    /// What the sink knows of the changes that it holds; nothing unless told otherwise.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// Ends what the sink keeps running beside the program, such as child processes.
    async fn close(&self) {}
}

/// The knowledge of a sink about the changes that it holds.
///
/// # Promises
/// - A change and the note that it is held are one step: after a crash both are there, or neither is.
/// - A change is added only where it is later than the last one held of its object, in the same step. So a second sending adds
///   nothing, whoever sends it and however late it arrives.
/// - A sending under an older epoch or generation than one that was seen adds nothing.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Of what the last change is known.
    fn unit(&self) -> Unit;

    /// The place of the last change that is held of an object. `None` where it holds none.
    async fn last(&self, lease: &Lease, key: &Key) -> Result<Option<Mark>, Failure>;
}

/// Of what a sink knows the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Of each partition of a feed.
    Partition,
    /// Of each object.
    Object,
}

/// How often a change can take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Effect and checkpoint are one transaction, or the sink itself refuses a change that it holds.
    ExactlyOnce,
    /// The sink recognises a change that comes again within a bounded time, and drops it.
    Deduplicated,
    /// After a crash, a change may be handled again, with the same id.
    AtLeastOnce,
}

impl Guarantee {
    /// The words for it on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Guarantee::ExactlyOnce => "exactly-once",
            Guarantee::Deduplicated => "deduplicated",
            Guarantee::AtLeastOnce => "at-least-once",
        }
    }
}
