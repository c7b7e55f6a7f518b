//! What a handler has told of a call that still runs: which of its changes are done.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::machine::Done;
use crate::change::Change;

/// Which changes of a call are done, as far as the handler has told. Telling costs next to nothing.
#[derive(Debug)]
pub(super) struct Told {
    /// The id and lane of each change of the call.
    changes: Vec<(u64, u64)>,
    /// A bit for each of them.
    bits: Vec<AtomicU64>,
}

impl Told {
    pub fn of(changes: &[Change]) -> Self {
        let words = changes.len().div_ceil(64);
        Told {
            changes: changes.iter().map(|change| (change.id, change.lane())).collect(),
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The change at this place is done.
    pub fn tell(&self, place: usize) {
        if let Some(word) = self.bits.get(place / 64) {
            word.fetch_or(1 << (place % 64), Ordering::Relaxed);
        }
    }

    fn is_told(&self, place: usize) -> bool {
        self.bits[place / 64].load(Ordering::Relaxed) >> (place % 64) & 1 == 1
    }

    /// The changes that are done. One that was told before an earlier change of its object waits for that one.
    pub fn done(&self) -> Vec<Done> {
        let mut behind = HashSet::new();
        let places = self.changes.iter().enumerate();
        let done = places.filter_map(|(place, (id, lane))| {
            if self.is_told(place) {
                (!behind.contains(lane)).then_some(Done { place, id: *id })
            } else {
                behind.insert(*lane);
                None
            }
        });
        done.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lanes: &[u64], places: &[usize]) -> Vec<usize> {
        let changes = lanes.iter().enumerate().map(|(place, lane)| (place as u64 + 100, *lane)).collect();
        let bits = (0..lanes.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let told = Told { changes, bits };
        places.iter().for_each(|place| told.tell(*place));
        let done = told.done();
        assert!(done.iter().all(|done| done.id == done.place as u64 + 100));
        done.into_iter().map(|done| done.place).collect()
    }

    #[test]
    fn each_change_is_done_that_was_told() {
        assert_eq!(told(&[1, 2, 3], &[2, 0]), [0, 2]);
        assert_eq!(told(&[1; 130], &(0..130).collect::<Vec<_>>()).len(), 130);
        assert!(told(&[1], &[64, 1000]).is_empty(), "a place that there is not");
    }

    #[test]
    fn a_change_that_was_told_before_an_earlier_one_of_its_object_is_not_done_yet() {
        assert_eq!(told(&[1, 2, 1, 1], &[1, 2, 3]), [1]);
        assert_eq!(told(&[1, 2, 1, 1], &[0, 1, 3]), [0, 1]);
        assert_eq!(told(&[1, 2, 1, 1], &[3, 2, 1, 0]), [0, 1, 2, 3]);
    }
}
