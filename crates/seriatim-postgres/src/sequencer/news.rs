//! Of which captures there is news. Pure: no I/O.

use std::collections::HashMap;

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The journal with this number.
    Journal(i64),
    /// The log with this number.
    Log(i64),
}

/// How often there was news of each capture.
#[derive(Debug, Default)]
pub(super) struct News {
    /// News that may be about any of them.
    of_all: u64,
    /// News of any kind.
    any: u64,
    by: HashMap<Subject, u64>,
}

impl News {
    /// How often there was news of this capture, or of any where it is not known yet which one it is.
    pub fn count(&self, subject: Option<Subject>) -> u64 {
        match subject {
            Some(subject) => self.of_all + self.by.get(&subject).copied().unwrap_or(0),
            None => self.any,
        }
    }

    /// Something may have happened to any capture.
    pub fn of_all(&mut self) {
        self.of_all += 1;
        self.any += 1;
    }

    /// Something happened to these.
    pub fn of(&mut self, subjects: &[Subject]) {
        self.any += 1;
        for subject in subjects {
            *self.by.entry(*subject).or_default() += 1;
        }
    }

    /// Takes in what a notification says: `1,5` names journals, `log 2,3` logs. One that names none is about all.
    pub fn told(&mut self, payload: &str) {
        let (numbers, subject): (&str, fn(i64) -> Subject) = match payload.strip_prefix("log") {
            Some(logs) => (logs.trim_start(), Subject::Log),
            None => (payload, Subject::Journal),
        };
        let named: Option<Vec<_>> = numbers.split(',').map(|one| one.parse().ok().map(subject)).collect();
        match named {
            Some(subjects) => self.of(&subjects),
            None => self.of_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(news: &News) -> [u64; 3] {
        [Subject::Journal(1), Subject::Journal(5), Subject::Log(1)].map(|subject| news.count(Some(subject)))
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
        for payload in ["", "log", "log 1,x", "7,", "changed"] {
            let mut news = News::default();
            news.told(payload);
            assert_eq!((counts(&news), news.count(None)), ([1; 3], 1), "{payload:?}");
        }
    }
}
