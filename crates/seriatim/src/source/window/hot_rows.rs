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
pub struct HotRows<K> {
    looked_at: Option<Timestamp>,
    /// When each last changed, and since when it has been waiting.
    young: HashMap<K, (Timestamp, Timestamp)>,
}

impl<K> Default for HotRows<K> {
    fn default() -> Self {
        HotRows { looked_at: None, young: HashMap::new() }
    }
}

impl<K: Eq + Hash> HotRows<K> {
    /// Whether it is time to look. Looks are `patience` apart: a record waits for twice that, and one look more. A clock that went
    /// backwards begins anew.
    pub fn is_due(&self, now: Timestamp, patience: Duration) -> bool {
        let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
        self.looked_at.is_none_or(|last| now < last || now.duration_since(last) >= patience)
    }

    /// Looks at all records that are too young now, and remembers them: says for each that has had no chance since the last look
    /// for how long it has been waiting.
    pub fn look(
        &mut self,
        now: Timestamp,
        young: impl IntoIterator<Item = (K, Timestamp)>,
    ) -> Vec<Option<Timestamp>> {
        let before = std::mem::take(&mut self.young);
        self.looked_at = Some(now);
        let waited = |(key, at)| {
            let known = before.get(&key);
            let since = known.map_or(now, |(_, since)| *since);
            if self.young.len() < MOST {
                self.young.insert(key, (at, since));
            }
            known.filter(|(earlier, _)| *earlier != at).map(|_| since)
        };
        young.into_iter().map(waited).collect()
    }

    /// The record was handled: it waits anew.
    pub fn forget(&mut self, key: &K) {
        self.young.remove(key);
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
        let mut restless = HotRows::default();
        assert!(restless.is_due(at(100), PATIENCE));
        assert_eq!(restless.look(at(100), [("hot", at(99)), ("still", at(98))]), [None, None]);
        assert!(!restless.is_due(at(109), PATIENCE));
        assert!(restless.is_due(at(110), PATIENCE));
        assert_eq!(restless.look(at(110), [("hot", at(109)), ("new", at(108))]), [Some(at(100)), None]);
        assert_eq!(
            restless.look(at(120), [("hot", at(119))]),
            [Some(at(100))],
            "it has waited since the first look"
        );
        restless.forget(&"hot");
        assert_eq!(restless.look(at(130), [("hot", at(129))]), [None], "it was handled");
    }

    #[test]
    fn what_has_not_changed_since_is_only_ahead_of_its_time() {
        let mut restless = HotRows::default();
        restless.look(at(100), [("tomorrow", at(90_000))]);
        assert_eq!(restless.look(at(110), [("tomorrow", at(90_000))]), [None]);
    }

    #[test]
    fn a_clock_that_went_backwards_is_not_waited_for() {
        let mut restless = HotRows::default();
        restless.look(at(100_000), [((), at(99_999))]);
        assert!(restless.is_due(at(100), PATIENCE));
    }
}
