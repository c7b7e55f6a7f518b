//! Of which captures there is news. Pure: no I/O.

use std::collections::{HashMap, VecDeque};

use seriatim::name::Partition;

/// How many pieces of news of one capture are remembered with the keys that they name.
const REMEMBERED: usize = 64;

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The journal with this number.
    Journal(i64),
    /// The log with this number.
    Log(i64),
}

/// Those of a feed's partitions of which somebody wants to hear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'a> {
    /// They.
    pub partitions: &'a [Partition],
    /// How many the feed has.
    pub of: u32,
}

impl Share<'_> {
    /// Whether a key with this hash is in one of them, as `journal_changes.sql` has it.
    fn has(&self, hash: i32) -> bool {
        let of = i64::from(self.of.max(1));
        self.partitions.iter().any(|partition| i64::from(partition.0) == i64::from(hash) % of)
    }
}

/// How often there was news of each capture.
#[derive(Debug, Default)]
pub(super) struct News {
    /// News that may be about any of them.
    of_all: u64,
    /// News of any kind.
    any: u64,
    by: HashMap<Subject, Heard>,
}

/// What was heard of one capture.
#[derive(Debug, Default)]
struct Heard {
    count: u64,
    /// Whose keys the last pieces of news were about, by their hashes; `None`: anybody's. Empty after news of all captures.
    last: VecDeque<Option<Vec<i32>>>,
}

impl News {
    /// How often there was news of this capture, or of any where it is not known yet which one it is.
    pub fn count(&self, subject: Option<Subject>) -> u64 {
        match subject {
            Some(subject) => self.of_all + self.by.get(&subject).map_or(0, |heard| heard.count),
            None => self.any,
        }
    }

    /// Whether there is more news of this capture than was known, of keys in this share where that can be told.
    pub fn is_more_than(&self, known: u64, subject: Option<Subject>, share: Option<Share<'_>>) -> bool {
        let fresh = usize::try_from(self.count(subject).saturating_sub(known)).unwrap_or(usize::MAX);
        let heard = subject.and_then(|subject| self.by.get(&subject));
        match (heard, share) {
            (Some(heard), Some(share)) if fresh <= heard.last.len() => {
                heard.last.iter().rev().take(fresh).any(|keys| match keys {
                    Some(hashes) => hashes.iter().any(|hash| share.has(*hash)),
                    None => true,
                })
            }
            _ => fresh > 0,
        }
    }

    /// Something may have happened to any capture.
    pub fn of_all(&mut self) {
        self.of_all += 1;
        self.any += 1;
        self.by.values_mut().for_each(|heard| heard.last.clear());
    }

    fn of(&mut self, subject: Subject, hashes: Option<Vec<i32>>) {
        let heard = self.by.entry(subject).or_default();
        heard.count += 1;
        heard.last.push_back(hashes);
        if heard.last.len() > REMEMBERED {
            heard.last.pop_front();
        }
    }

    /// Takes in what a notification says: `1,5` names journals, `log 2,3` logs. `1:17;4,5` says that in journal 1 there are changes of keys with
    /// these hashes only. One that names none is about all.
    pub fn told(&mut self, payload: &str) {
        let (names, subject): (&str, fn(i64) -> Subject) = match payload.strip_prefix("log") {
            Some(logs) => (logs.trim_start(), Subject::Log),
            None => (payload, Subject::Journal),
        };
        let named: Option<Vec<_>> = names.split(',').map(parsed).collect();
        match named {
            Some(named) => {
                self.any += 1;
                named.into_iter().for_each(|(number, hashes)| self.of(subject(number), hashes));
            }
            None => self.of_all(),
        }
    }
}

/// One name, and the hashes of the keys where they are given.
fn parsed(name: &str) -> Option<(i64, Option<Vec<i32>>)> {
    match name.split_once(':') {
        Some((number, hashes)) => {
            let hashes: Option<Vec<i32>> = hashes.split(';').map(|hash| hash.parse().ok()).collect();
            Some((number.parse().ok()?, Some(hashes?)))
        }
        None => Some((name.parse().ok()?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFTH: Option<Subject> = Some(Subject::Journal(5));

    fn counts(news: &News) -> [u64; 3] {
        [Subject::Journal(1), Subject::Journal(5), Subject::Log(1)].map(|subject| news.count(Some(subject)))
    }

    fn share(partitions: &[Partition]) -> Option<Share<'_>> {
        Some(Share { partitions, of: 10 })
    }

    #[test]
    fn a_notification_wakes_only_those_whom_it_names() {
        let mut news = News::default();
        news.told("5,12");
        assert_eq!(counts(&news), [0, 1, 0]);
        news.told("log 1,2");
        assert_eq!(counts(&news), [0, 1, 1]);
        assert_eq!(news.count(None), 2);
    }

    #[test]
    fn one_that_names_nobody_wakes_everybody() {
        for payload in ["", "log", "log 1,x", "7,", "changed", "7:", "7:x", "x:7", "7:1;"] {
            let mut news = News::default();
            news.told(payload);
            assert_eq!((counts(&news), news.count(None)), ([1; 3], 1), "{payload:?}");
            assert!(news.is_more_than(0, FIFTH, share(&[])), "{payload:?}");
        }
    }

    #[test]
    fn one_that_names_keys_wakes_only_those_who_wait_for_them() {
        let mut news = News::default();
        news.told("5:12;37,6");
        let woken: Vec<u32> =
            (0..10).filter(|n| news.is_more_than(0, FIFTH, share(&[Partition(*n)]))).collect();
        assert_eq!(woken, [2, 7]);
        assert!(news.is_more_than(0, FIFTH, None), "somebody who waits for all of it");
        assert!(!news.is_more_than(1, FIFTH, share(&[Partition(2)])), "it is known already");
        let sixth = Some(Subject::Journal(6));
        assert!(news.is_more_than(0, sixth, share(&[Partition(1)])), "no keys are named");
    }

    #[test]
    fn a_key_named_earlier_is_not_forgotten_when_another_is_named() {
        let mut news = News::default();
        news.told("5:1");
        news.told("5:2");
        let first = share(&[Partition(1)]);
        assert!(news.is_more_than(0, FIFTH, first));
        assert!(!news.is_more_than(1, FIFTH, first));
    }

    #[test]
    fn what_is_not_remembered_wakes_everybody() {
        let mut news = News::default();
        news.told("5:1");
        for _ in 0..REMEMBERED {
            news.told("5:2");
        }
        assert!(news.is_more_than(0, FIFTH, share(&[Partition(1)])));
        assert!(!news.is_more_than(1, FIFTH, share(&[Partition(1)])));
    }

    #[test]
    fn news_of_all_counts_however_much_is_named_after_it() {
        let mut news = News::default();
        news.told("5:2");
        news.of_all();
        news.told("5:2");
        let other = share(&[Partition(1)]);
        assert!(news.is_more_than(0, FIFTH, other));
        assert!(news.is_more_than(1, FIFTH, other), "all were told after the first");
        assert!(!news.is_more_than(2, FIFTH, other));
    }
}
