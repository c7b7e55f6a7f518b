//! Turns of feeds at the connections of handlers.
//!
//! However long one feed's handlers keep theirs, they never have all of them, and whoever waits is served before a feed that has more:
//! so no feed waits longer than the shortest of the transactions that are under way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Shares out turns.
pub(super) struct Fair {
    state: Mutex<State>,
}

struct State {
    free: usize,
    /// The most that one feed may have: all but one.
    most: usize,
    held: HashMap<String, usize>,
    waiting: VecDeque<(String, oneshot::Sender<Turn>)>,
}

/// A turn. It ends when it is dropped.
pub struct Turn {
    of: Arc<Fair>,
    feed: String,
}

impl Fair {
    /// So many turns at once.
    pub fn new(turns: usize) -> Self {
        let (held, waiting) = (HashMap::new(), VecDeque::new());
        let state = State { free: turns, most: turns.saturating_sub(1).max(1), held, waiting };
        Fair { state: Mutex::new(state) }
    }

    /// Waits for a turn of this feed. Dropping the future gives its place in the queue up.
    pub async fn turn(self: &Arc<Self>, feed: &str) -> Turn {
        let (sender, turn) = oneshot::channel();
        self.state().waiting.push_back((feed.to_owned(), sender));
        self.serve();
        turn.await.expect("who waits is served before the queue ends: it is kept here")
    }

    /// Gives free turns to those who wait.
    fn serve(self: &Arc<Self>) {
        loop {
            let next = self.state().next();
            let Some((feed, sender)) = next else { return };
            // One that nobody waits for any more ends at once, and with that the next one is served.
            drop(sender.send(Turn { of: Arc::clone(self), feed }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a turn for the one whose feed has fewest, and of these the first.
    fn next(&mut self) -> Option<(String, oneshot::Sender<Turn>)> {
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        if self.free == 0 {
            return None;
        }
        let held = |feed: &String| self.held.get(feed).copied().unwrap_or(0);
        let may = self.waiting.iter().enumerate().filter(|(_, (feed, _))| held(feed) < self.most);
        let first = may.min_by_key(|(place, (feed, _))| (held(feed), *place)).map(|(place, _)| place)?;
        let (feed, sender) = self.waiting.remove(first)?;
        self.free -= 1;
        *self.held.entry(feed.clone()).or_default() += 1;
        Some((feed, sender))
    }

    fn ended(&mut self, feed: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(feed) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(feed);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.of.state().ended(&self.feed);
        self.of.serve();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn now(fair: &Arc<Fair>, feed: &str) -> Option<Turn> {
        fair.turn(feed).now_or_never()
    }

    #[tokio::test]
    async fn no_feed_has_all_turns() {
        let fair = Arc::new(Fair::new(3));
        let slow: Vec<_> = (0..5).map_while(|_| now(&fair, "slow")).collect();
        assert_eq!(slow.len(), 2);
        let other = now(&fair, "other").expect("one is left for others");
        assert!(now(&fair, "third").is_none());
        drop(other);
        assert!(now(&fair, "third").is_some());
    }

    #[tokio::test]
    async fn who_has_none_comes_before_who_has_one() {
        let fair = Arc::new(Fair::new(2));
        let (first, second) = (now(&fair, "a").unwrap(), now(&fair, "b").unwrap());
        let mut again = Box::pin(fair.turn("a"));
        assert!(again.as_mut().now_or_never().is_none());
        let mut newcomer = Box::pin(fair.turn("c"));
        assert!(newcomer.as_mut().now_or_never().is_none());
        drop(second);
        assert!(again.as_mut().now_or_never().is_none());
        let _served = newcomer.as_mut().now_or_never().expect("it has none");
        drop(first);
        assert!(again.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_keeps_nothing() {
        let fair = Arc::new(Fair::new(1));
        let held = now(&fair, "a").unwrap();
        assert!(now(&fair, "b").is_none());
        drop(held);
        for _ in 0..3 {
            assert!(now(&fair, "c").is_some());
        }
    }
}
