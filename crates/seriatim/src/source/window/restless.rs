//! Records that change more often than the buffer: without a memory of them they would never be seen at rest.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// More records than this are not remembered from one look to the next.
const MOST: usize = 250_000;

/// Remembers which records were too young for a window at the last look, and how young.
///
/// A record that was too young then, and is now, and has changed in between, has had no chance in all that time.
/// It may be handled without waiting for it to rest, as long as the tracker does not move for it.
#[derive(Debug)]
pub struct Restless<K> {
    looked_at: Option<Timestamp>,
    young: HashMap<K, Timestamp>,
}

impl<K> Default for Restless<K> {
    fn default() -> Self {
        Restless { looked_at: None, young: HashMap::new() }
    }
}

impl<K: Eq + Hash> Restless<K> {
    /// Whether it is time to look. Looks are `patience` apart: a record waits for twice that, and one look more. A clock that went
    /// backwards begins anew.
    pub fn is_due(&self, now: Timestamp, patience: Duration) -> bool {
        let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
        self.looked_at.is_none_or(|last| now < last || now.duration_since(last) >= patience)
    }

    /// Looks at all records that are too young now: says for each whether it has waited long enough, and remembers it.
    pub fn look(&mut self, now: Timestamp, young: impl IntoIterator<Item = (K, Timestamp)>) -> Vec<bool> {
        let before = std::mem::take(&mut self.young);
        self.looked_at = Some(now);
        let waited = |(key, at)| {
            let waited = before.get(&key).is_some_and(|earlier| *earlier != at);
            if self.young.len() < MOST {
                self.young.insert(key, at);
            }
            waited
        };
        young.into_iter().map(waited).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn who_was_young_and_is_young_again_has_waited() {
        let mut restless = Restless::default();
        assert!(restless.is_due(at(100), PATIENCE));
        assert_eq!(restless.look(at(100), [("hot", at(99)), ("still", at(98))]), [false, false]);
        assert!(!restless.is_due(at(109), PATIENCE));
        assert!(restless.is_due(at(110), PATIENCE));
        assert_eq!(restless.look(at(110), [("hot", at(109)), ("new", at(108))]), [true, false]);
    }

    #[test]
    fn what_has_not_changed_since_is_only_ahead_of_its_time() {
        let mut restless = Restless::default();
        restless.look(at(100), [("tomorrow", at(90_000))]);
        assert_eq!(restless.look(at(110), [("tomorrow", at(90_000))]), [false]);
    }

    #[test]
    fn a_clock_that_went_backwards_is_not_waited_for() {
        let mut restless = Restless::default();
        restless.look(at(100_000), [((), at(99_999))]);
        assert!(restless.is_due(at(100), PATIENCE));
    }
}
