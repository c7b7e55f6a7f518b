//! What a source remembers of a feed, and what that says about a store that has nothing of it. Nothing here touches a database.

use jiff::Timestamp;

use crate::change::Position;
use crate::name::{FeedName, StoreId};

/// A consumer of a feed in the source's books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The store that keeps its checkpoints.
    pub store: StoreId,
    /// It has been given changes: it is not where it began any more.
    pub begun: bool,
    /// All of its partitions have handled or parked everything up to here; `None` while that is not known.
    pub upto: Option<Position>,
    /// When it last said so, by the source's clock.
    pub seen_at: Timestamp,
}

/// A feed of which its source knows a consumer and its store has no checkpoints. It must not begin anew by itself: changes that
/// nobody has handled would be passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    feed: FeedName,
    whose: Whose,
    known: Registered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The consumer is that of this store.
    Own,
    /// The consumer is that of another store.
    Other,
}

impl Lost {
    /// What the books say about a feed whose `store` has no checkpoints of it; `None` when it may begin. A store's own consumer
    /// that has not begun is one that somebody is just opening.
    ///
    /// The books have to be read before the store is: a consumer begins only after the store has its leases.
    pub fn find(feed: &FeedName, store: &StoreId, books: &[Registered]) -> Option<Self> {
        let own = books.iter().find(|known| known.store == *store);
        let (whose, known) = match own {
            Some(own) if own.begun => (Whose::Own, own),
            Some(_) => return None,
            None => (Whose::Other, books.iter().max_by_key(|known| known.seen_at)?),
        };
        Some(Lost { feed: feed.clone(), whose, known: known.clone() })
    }

    /// What is wrong.
    pub fn what(&self) -> String {
        match self.whose {
            Whose::Own => "the store has lost its checkpoints: the source knows that changes were handled; the store was \
                           emptied, or started again without what it had saved"
                .to_owned(),
            Whose::Other => format!(
                "the store has no checkpoints of it, but the source knows it by another store ({}, last heard of at {}): the \
                 store was emptied or replaced, or is a second one",
                self.known.store, self.known.seen_at
            ),
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        let Lost { feed, known, .. } = self;
        match &known.upto {
            Some(upto) => format!(
                "`seriatim rewind {feed} --to {upto}` goes on after the changes that were handled or parked, `--to beginning` \
                 does everything again, `--to now` passes over the rest"
            ),
            None => format!(
                "`seriatim rewind {feed} --to beginning` does everything again, `--to TIME` goes on from there, `--to now` \
                 passes over the rest"
            ),
        }
    }

    /// The registration that stands in the way.
    pub fn known(&self) -> &Registered {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(store: &str, begun: bool, seconds: i64) -> Registered {
        let seen_at = Timestamp::from_second(seconds).unwrap();
        let upto = begun.then(|| Position::number(7));
        Registered { store: StoreId::new(store).unwrap(), begun, upto, seen_at }
    }

    fn find(books: &[Registered]) -> Option<Lost> {
        Lost::find(&FeedName::new("f").unwrap(), &StoreId::new("mine").unwrap(), books)
    }

    #[test]
    fn a_feed_that_no_store_knows_begins() {
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn a_feed_that_its_own_store_is_just_opening_begins() {
        assert_eq!(find(&[known("mine", false, 1), known("other", true, 9)]), None);
    }

    #[test]
    fn a_store_that_lost_its_own_feed_is_told_where_to_go_on() {
        let lost = find(&[known("other", true, 9), known("mine", true, 1)]).unwrap();
        assert!(lost.what().starts_with("the store has lost its checkpoints"), "{}", lost.what());
        assert!(lost.remedy().starts_with("`seriatim rewind f --to 7`"), "{}", lost.remedy());
    }

    #[test]
    fn a_feed_of_another_store_does_not_begin_though_nothing_of_it_was_handled() {
        let lost = find(&[known("old", false, 1), known("older", false, 0)]).unwrap();
        assert!(lost.what().contains("by another store (old, last heard of at"), "{}", lost.what());
        assert!(lost.remedy().starts_with("`seriatim rewind f --to beginning`"), "{}", lost.remedy());
    }
}
