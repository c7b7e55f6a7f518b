//! The chain of one object's events: each names the one before it.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The number of an event: unlike that of any other event of its queue, and greater than those of all earlier events of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub u64);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ids of rows that existed before a feed began are from here on where their source cannot draw smaller ones.
const EXISTING: u64 = 1 << 62;

impl EventId {
    /// Whether it is that of a row that existed before its feed began, from a source that cannot draw smaller ones.
    pub fn is_existing(self) -> bool {
        self.0 >= EXISTING
    }

    /// Where it stands among the ids of its object: a row that existed before comes before all its changes.
    pub fn in_chain(self) -> Self {
        if self.is_existing() { EventId(0) } else { self }
    }

    /// The id that a change of this id names as the one before it, when the last change of its object that was handed out is `last`.
    ///
    /// A smaller one; `None` for the first change, and for one that is handed out once more because somebody rewound the feed: its
    /// chain then begins again there, and a gate knows all of it up to where it stood.
    pub fn after(self, last: Option<EventId>) -> Option<EventId> {
        last.filter(|last| last.in_chain() < self.in_chain())
    }
}

/// The place of an event in its object's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    id: EventId,
    prev: Option<EventId>,
}

/// An event that claims to come before the one it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("event {id} names {prev} as the event before it, which is not smaller")]
pub struct NotALink {
    /// The event.
    pub id: EventId,
    /// What it says comes before it.
    pub prev: EventId,
}

impl Link {
    /// The link of event `id`, which follows `prev`, or nothing when it is the object's first. The id of a row that existed before
    /// its feed began counts as 0.
    pub fn new(id: EventId, prev: Option<EventId>) -> Result<Self, NotALink> {
        let (id, prev) = (id.in_chain(), prev.map(EventId::in_chain));
        match prev {
            Some(prev) if prev >= id => Err(NotALink { id, prev }),
            _ => Ok(Link { id, prev }),
        }
    }

    /// The event's own number.
    pub fn id(&self) -> EventId {
        self.id
    }

    /// The number of the event before it.
    pub fn prev(&self) -> Option<EventId> {
        self.prev
    }
}

/// The links of `count` events that follow `last`, the first of them numbered `first`.
///
/// They depend on nothing else, so an event that is sent again, by whomever, carries the same link.
pub fn links(first: EventId, last: Option<EventId>, count: usize) -> impl Iterator<Item = Link> {
    (0..count as u64).map(move |nth| {
        let id = EventId(first.0 + nth);
        Link { id, prev: if nth == 0 { last } else { Some(EventId(id.0 - 1)) } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_follows_a_smaller_one() {
        assert!(Link::new(EventId(2), Some(EventId(1))).is_ok());
        assert!(Link::new(EventId(2), None).is_ok());
        let wrong = Link::new(EventId(2), Some(EventId(2))).unwrap_err();
        assert_eq!(wrong.to_string(), "event 2 names 2 as the event before it, which is not smaller");
    }

    #[test]
    fn a_row_that_existed_comes_before_its_changes() {
        let existed = EventId(EXISTING + 99);
        assert_eq!(EventId(5).after(Some(existed)), Some(existed));
        assert_eq!(existed.after(Some(EventId(5))), None, "told once more");
        assert_eq!(EventId(5).after(Some(EventId(5))), None, "told once more");
        assert_eq!(Link::new(EventId(5), Some(existed)), Link::new(EventId(5), Some(EventId(0))));
    }

    #[test]
    fn links_hang_together() {
        let links: Vec<_> =
            links(EventId(7), Some(EventId(3)), 3).map(|link| (link.id.0, link.prev)).collect();
        assert_eq!(links, [(7, Some(EventId(3))), (8, Some(EventId(7))), (9, Some(EventId(8)))]);
    }
}
