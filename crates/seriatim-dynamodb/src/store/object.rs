//! A parked object and its changes as they are in the table.

use seriatim::change::Change;
use seriatim::name::{FeedName, Partition};
use seriatim::store::{ParkedFailure, ParkedObject, ParkedState, StoreError};
use seriatim::value::Key;

use super::feeds::{json, to_json};
use super::keys;
use super::plan::{PIECE, Write, pieces, put};
use crate::item::{Item, foreign, number, number_of, text, text_of};

/// What is said of an object whose later change came to be parked before its failed one. No change is lost over it.
const WAITS: &str = "waits behind an earlier change";

/// So many bytes of a sentence are kept: an item takes 400 kB in all.
const LONGEST_SENTENCE: usize = 50_000;

/// A parked object.
#[derive(Clone, Debug)]
pub(super) struct ObjectItem {
    pub partition: Partition,
    pub key: Key,
    pub failure: ParkedFailure,
    /// Milliseconds since 1970.
    pub since: i64,
    /// In the order of parking, over all partitions; none while it has not been drawn.
    pub number: Option<u64>,
    pub waiting: u64,
    pub bytes: u64,
    /// The place of the change that comes next.
    pub next: u64,
}

impl ObjectItem {
    /// One that nothing has failed of yet.
    pub(super) fn new(partition: Partition, key: Key, since: i64, next: u64) -> Self {
        let (error, state) = (WAITS.to_owned(), ParkedState::Retrying);
        let failure = ParkedFailure { error, attempts: 0, state, next_try: None };
        ObjectItem { partition, key, failure, since, number: None, waiting: 0, bytes: 0, next }
    }

    pub(super) fn of(item: &Item) -> Result<Self, StoreError> {
        let state = match text_of(item, "parkedState")? {
            "retrying" => ParkedState::Retrying,
            "parked" => ParkedState::Parked,
            other => return Err(foreign(format!("an object is {other}"))),
        };
        let failure = ParkedFailure {
            error: text_of(item, "errorText")?.to_owned(),
            attempts: number_of(item, "attemptCount")?,
            state,
            // Objects of an earlier version have none.
            next_try: match item.contains_key("nextTry") {
                true => Some(super::timestamp(number_of(item, "nextTry")?)),
                false => None,
            },
        };
        Ok(ObjectItem {
            partition: Partition(number_of(item, "partitionNumber")?),
            key: json(item, "keyJson")?,
            failure,
            since: number_of(item, "parkedSince")?,
            number: Some(number_of(item, "parkedNumber")?),
            waiting: number_of(item, "waitingChanges")?,
            bytes: number_of(item, "waitingBytes")?,
            next: number_of(item, "nextPlace")?,
        })
    }

    pub(super) fn write(&self, life: &str, name: &str) -> Write {
        let state = match self.failure.state {
            ParkedState::Retrying => "retrying",
            ParkedState::Parked => "parked",
        };
        let key = keys::key(&format!("parked/{life}"), name);
        let write = put(
            key,
            [
                ("partitionNumber", number(self.partition.0)),
                ("keyJson", text(&to_json(&self.key))),
                ("errorText", text(sentence(&self.failure.error))),
                ("attemptCount", number(self.failure.attempts)),
                ("parkedState", text(state)),
                ("parkedSince", number(self.since)),
                ("parkedNumber", number(self.number.unwrap_or_default())),
                ("waitingChanges", number(self.waiting)),
                ("waitingBytes", number(self.bytes)),
                ("nextPlace", number(self.next)),
            ],
        );
        match (write, self.failure.next_try) {
            (Write::Put(mut item), Some(next_try)) => {
                item.insert("nextTry".to_owned(), number(next_try.as_millisecond()));
                Write::Put(item)
            }
            (write, _) => write,
        }
    }

    pub(super) fn try_again(&mut self) {
        self.failure.attempts = 0;
        self.failure.state = ParkedState::Retrying;
    }

    pub(super) fn shown(self, feed: &FeedName) -> ParkedObject {
        let ObjectItem { partition, key, failure, since, waiting, bytes, .. } = self;
        let since = super::timestamp(since);
        ParkedObject { feed: feed.clone(), partition, key, waiting, bytes, failure, since }
    }
}

/// As much of a text as is kept.
pub(super) fn sentence(text: &str) -> &str {
    pieces(text, LONGEST_SENTENCE)[0]
}

/// Where a change is that is kept for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub place: u64,
    pub pieces: usize,
    pub bytes: u64,
}

impl Placed {
    pub(super) fn of(item: &Item) -> Result<Self, StoreError> {
        Ok(Placed {
            place: number_of(item, "changePlace")?,
            pieces: number_of(item, "pieceCount")?,
            bytes: number_of(item, "changeBytes")?,
        })
    }
}

/// What keeps a change at this place.
pub(super) fn keep(life: &str, object: &str, place: u64, change: &Change) -> (Placed, Vec<Write>) {
    let body = to_json(change);
    let pieces = pieces(&body, PIECE);
    let placed = Placed { place, pieces: pieces.len(), bytes: body.len() as u64 };
    let known = [
        ("changePlace", number(place)),
        ("pieceCount", number(placed.pieces)),
        ("changeBytes", number(placed.bytes)),
        ("changeId", number(change.id)),
    ];
    let mut writes = vec![put(keys::id(life, object, change.id), known.clone())];
    for (index, piece) in pieces.into_iter().enumerate() {
        let Write::Put(mut item) = put(keys::change(life, object, place, index), known.clone()) else {
            continue;
        };
        item.insert("pieceBody".to_owned(), text(piece));
        writes.push(Write::Put(item));
    }
    (placed, writes)
}

/// What removes a change.
pub(super) fn drop_change(life: &str, object: &str, id: u64, placed: Placed) -> Vec<Write> {
    let pieces = (0..placed.pieces).map(|piece| keys::change(life, object, placed.place, piece));
    pieces.chain([keys::id(life, object, id)]).map(Write::Delete).collect()
}

/// Changes of the pieces that are whole, in order.
pub(super) fn changes(pieces: &[Item]) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let mut rest = pieces;
    while let Some(first) = rest.first() {
        let count: usize = number_of(first, "pieceCount")?;
        if rest.len() < count.max(1) {
            break;
        }
        let (whole, after) = rest.split_at(count.max(1));
        let body = whole.iter().map(|piece| text_of(piece, "pieceBody")).collect::<Result<String, _>>()?;
        changes.push(serde_json::from_str(&body).map_err(|_| foreign("a change that cannot be read"))?);
        rest = after;
    }
    Ok(changes)
}
