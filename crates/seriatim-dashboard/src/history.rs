//! How far feeds were behind, as long as somebody has looked: a few hundred points each, kept by this process and not by the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::Desk;
use crate::pages::view::{Feed, Status};

/// So many points of a feed are kept, the latest ones.
const POINTS: usize = 360;

/// So many feeds have a history.
const FEEDS: usize = 1_000;

/// No more than one point in this time.
const EVERY: Duration = Duration::from_secs(5);

/// How far behind a feed was; `None` where that was not known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub at: Timestamp,
    pub changes: Option<u64>,
}

/// The points of all feeds, oldest first.
#[derive(Debug, Default)]
pub struct History(BTreeMap<String, VecDeque<Point>>);

impl History {
    fn note(&mut self, feed: &Feed, at: Timestamp) {
        if self.0.len() >= FEEDS && !self.0.contains_key(&feed.name) {
            return;
        }
        let points = self.0.entry(feed.name.clone()).or_default();
        if points.back().is_some_and(|last| at.duration_since(last.at).unsigned_abs() < EVERY) {
            return;
        }
        if points.len() >= POINTS {
            points.pop_front();
        }
        points.push_back(Point { at, changes: feed.lag().changes });
    }
}

impl Desk {
    /// Notes how far behind the feeds are.
    pub(crate) fn remember(&self, status: &Value) {
        let Ok(status) = serde_json::from_value::<Status>(status.clone()) else { return };
        let at = seriatim::clock::wall();
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        status.feeds.iter().for_each(|feed| history.note(feed, at));
    }

    /// How far behind a feed was.
    pub(crate) fn past(&self, feed: &str) -> Vec<Point> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.0.get(feed).map(|points| points.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_bounded_and_does_not_make_the_unknown_zero() {
        let (mut history, feed) = (History::default(), Feed { name: "orders".into(), ..Feed::default() });
        for second in 0..10_000 {
            history.note(&feed, Timestamp::from_second(second).unwrap());
        }
        let points = &history.0["orders"];
        assert_eq!(points.len(), POINTS);
        assert_eq!(points[0].changes, None);
        let apart = points[1].at.duration_since(points[0].at);
        assert_eq!(apart.as_secs(), 5);
    }
}
