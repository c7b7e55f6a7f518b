//! What tells one change from another, for ever.

use xxhash_rust::xxh64::Xxh64;

use crate::change::Change;
use crate::value::Row;

/// The id under which a change is remembered, the same on every redelivery: `PARTITION/ID/CONTENTS`, the last one a hash.
///
/// The number alone would not do: a source that was replaced counts from one again, a log shows a later state of the row under the
/// same number, and a truncate has one number in all partitions. What may differ between two deliveries of the same change, such
/// as its position, is not in it.
pub fn signal_id(change: &Change) -> String {
    format!("{}/{}/{:016x}", change.partition, change.id, contents(change))
}

fn contents(change: &Change) -> u64 {
    let mut hash = Xxh64::new(0);
    hash.update(change.op.as_str().as_bytes());
    hash.update(&change.at.as_nanosecond().to_le_bytes());
    let key = change.key.as_ref().map(|key| key.row());
    for row in [key, change.before.as_ref(), change.after.as_ref()] {
        // What is not there differs from what is empty, and none runs into the next.
        let text = row.map_or_else(String::new, |row: &Row| row.to_json().to_string());
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.digest()
}
