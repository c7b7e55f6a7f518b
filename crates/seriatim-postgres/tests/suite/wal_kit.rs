//! What the tests of the capture `wal` share.

use seriatim::change::Change;
use seriatim::source::{Install, Start};
use seriatim_postgres::Source;

use crate::journal_kit::{Follower, LIMIT, Shop};
use crate::support::until;

/// Everything that is committed by now, read until the relay has caught up.
pub async fn all(follower: &mut Follower) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..3000 {
        let (read, caught_up) = follower.read(LIMIT).await;
        changes.extend(read);
        if caught_up {
            return changes;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it does not catch up");
}

/// A consumer of the log of `orders`, in four partitions.
pub async fn follow(shop: &Shop, start: Start) -> Follower {
    Follower::open(shop.source().wal("orders").partitions(4), start).await
}

/// What happened, in short: op, key, before and after.
pub fn told(changes: &[Change]) -> Vec<String> {
    let row =
        |row: &Option<seriatim::Row>| row.as_ref().map_or("-".to_owned(), |row| row.to_json().to_string());
    let line = |change: &Change| {
        let key = change.key.as_ref().map_or("-".to_owned(), ToString::to_string);
        format!("{} {key} {} {}", change.op.as_str(), row(&change.before), row(&change.after))
    };
    changes.iter().map(line).collect()
}

/// The slot of this database, if there is one.
pub async fn slot(shop: &Shop) -> Option<seriatim::source::Slot> {
    Source::connect(shop.place.url()).unwrap().wal("orders").slot().await.unwrap()
}

/// Waits until the relay reads the slot.
pub async fn is_read(shop: &Shop) {
    until("the slot is read", async || slot(shop).await.is_some_and(|slot| slot.active)).await;
}

/// What the feed says when it stops.
pub async fn attention(follower: &mut Follower) -> String {
    for _ in 0..600 {
        match follower.try_read(LIMIT).await {
            Err(error @ seriatim::source::SourceError::NeedsAttention { .. }) => return error.to_string(),
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
    panic!("the feed does not stop");
}
