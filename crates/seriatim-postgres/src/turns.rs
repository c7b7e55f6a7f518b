//! Effects of one feed that stand in each other's way.
//!
//! Partitions are handled at the same time, and their effects may write the same rows in any order: each customer's total, by
//! orders of all partitions. Then PostgreSQL finds a deadlock, after a second, and ends one of the transactions. That is nobody's
//! failure: it is tried again at once, alone, and for a while the effects of that feed take turns. All hosts take part: everyone
//! holds a lock of the feed, shared as long as things go well.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seriatim::clock;
use seriatim::handler::CommitError;
use seriatim::name::FeedName;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

/// How long effects take turns after they stood in each other's way.
const ALONE_FOR: Duration = Duration::from_secs(30);

/// How often a transaction is tried again by itself. Alone, it can only collide with writers of other kinds.
pub(crate) const AGAIN: usize = 5;

const SHARED: &str = include_str!("../queries/effect_beside.sql");
const ALONE: &str = include_str!("../queries/effect_alone.sql");

/// Which feeds' effects take turns, as far as this process knows.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<FeedName, Instant>>);

impl Turns {
    /// The statement that gives a transaction of this feed its turn.
    pub(crate) fn lock_sql(&self, feed: &FeedName) -> &'static str {
        let alone = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(feed).copied();
        if alone.is_some_and(|until| clock::now() < until) { ALONE } else { SHARED }
    }

    /// Effects of this feed stood in each other's way.
    pub(crate) fn take_turns(&self, feed: &FeedName) {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if feeds.insert(feed.clone(), clock::now() + ALONE_FOR).is_none_or(|until| until < clock::now()) {
            tracing::info!(%feed, "effects of several partitions write the same rows: for a while they take turns");
        }
    }
}

/// Whether PostgreSQL ended the transaction because of what another one did: nothing is wrong with either.
pub(crate) fn collided(error: &CommitError) -> bool {
    let CommitError::Failed(failure) = error else { return false };
    let mut cause: Option<&(dyn Error + 'static)> = Some(&*failure.cause);
    while let Some(error) = cause {
        let boxed = error.downcast_ref::<Box<tokio_postgres::Error>>().map(|boxed| &**boxed);
        if let Some(postgres) = error.downcast_ref::<tokio_postgres::Error>().or(boxed) {
            let code = postgres.code();
            return code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
                || code == Some(&SqlState::T_R_SERIALIZATION_FAILURE);
        }
        cause = error.source();
    }
    false
}
