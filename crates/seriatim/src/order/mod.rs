//! **Order.** What keeps the changes of one object in line.
//!
//! Order is per object and rests on two facts: all changes of one key are in one partition ([`partition_of`]), and
//! inside a partition they run in one lane (see `host/partition/machine/lanes`).
//!
//! Events that leave for consumers elsewhere carry their order with them: each has an `id` and the `id` of its object's
//! previous event (a [`Link`] of the object's chain). A [`Gate`] is the consumer's half: it says of each event whether to
//! apply it, that it was applied already, or what it has to wait for.

mod chain;
mod gate;

pub use chain::{EventId, Link, NotALink, links};
pub use gate::{
    Admit, Arrived, Fetch, Fetched, Forked, Gap, Gate, GateError, GateState, JsonLines, Limits, LineError,
    MemoryGateState, admit, admit_state,
};

use crate::name::Partition;
use crate::value::Key;

/// The partition that a key belongs to, of so many.
///
/// The same key always lands in the same partition as long as the count stays the same; that is why the count of a feed
/// that has run changes at a barrier only (see [`Layout`](crate::lease::Layout)).
pub fn partition_of(key: &Key, partitions: u32) -> Partition {
    partition_of_hash(key.hash(), partitions)
}

/// The partition that a key with this hash belongs to (see [`Key::hash_of`]).
pub fn partition_of_hash(hash: u64, partitions: u32) -> Partition {
    Partition((hash % u64::from(partitions.max(1))) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn keys_spread_evenly_over_partitions() {
        let mut counts = [0u32; 16];
        for id in 0..16_000 {
            counts[partition_of(&Key::of("id", Value::Integer(id)), 16).0 as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
