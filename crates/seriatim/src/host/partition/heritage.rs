//! Parked objects that a partition takes over from those that it comes from, before it handles anything.

use super::{Closed, Setup};
use crate::lease::Part;
use crate::name::Partition;
use crate::source::Feed;
use crate::store::ParkedObject;
use crate::value::Key;

/// Makes parked objects of its parents this partition's own, as far as they are in it.
pub(super) async fn adopt(setup: &Setup, feed: &dyn Feed) -> Result<(), Closed> {
    let (id, part) = (&setup.lease.id, &setup.part);
    if part.parents.is_empty() {
        return Ok(());
    }
    let mut left = setup.store.parked(&id.feed, None).await.map_err(Closed::of_store)?;
    left.retain(|object| part.parents.contains(&object.partition));
    let keys: Vec<Key> = left.iter().map(|object| object.key.clone()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let hashes = feed.hashes(&keys).await.map_err(|error| Closed::of_source(&error))?;
    let own = own(part, id.partition, &left, &hashes)?;
    let adopted = setup.store.adopt_parked(&setup.lease, &own).await;
    adopted.map_err(Closed::of_checkpoint)
}

/// The objects that belong to a partition. All hashes have to agree with where the objects were.
fn own(part: &Part, own: Partition, left: &[ParkedObject], hashes: &[u64]) -> Result<Vec<Key>, Closed> {
    let of = |hash: u64, count: u32| (hash % u64::from(count.max(1))) as u32;
    let before = part.parents.len() as u32;
    let first = part.parents.first().map_or(0, |parent| parent.0);
    let mut keys = Vec::new();
    for (object, hash) in left.iter().zip(hashes) {
        if of(*hash, before) != object.partition.0.saturating_sub(first) {
            return Err(Closed::Failed(format!(
                "the parked object {} was in partition {}, and its key says otherwise; discard or retry it with the former \
                 number of partitions",
                object.key, object.partition
            )));
        }
        if of(*hash, part.count) == part.index(own) {
            keys.push(object.key.clone());
        }
    }
    Ok(keys)
}
