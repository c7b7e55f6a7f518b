//! Notices a source that is older than its consumer's checkpoints: one that was restored from a backup.
//!
//! The checkpoints are in a store elsewhere, and a restored journal draws numbers again that it drew before: once it has
//! drawn enough, an old checkpoint looks like any other, and the changes below it would be passed over for ever. So the
//! source notes how far it has *shown* changes, before it shows them. A consumer that stands beyond that was shown more than
//! this file knows of.
//!
//! When the store is in the same file, both go back together, and nothing is noted.

use std::sync::PoisonError;

use rusqlite::{Connection, OptionalExtension, Row};
use seriatim::change::Position;
use seriatim::source::{Consumer, Cursor, Slice, SourceError};

use super::Capture;
use super::error::{Fault, run};
use super::errors::Names;
use super::install::write;
use super::position::Place;
use crate::store::identity_in;

const SHOWN: &str = include_str!("../../queries/consumer_shown.sql");
const SHOW: &str = include_str!("../../queries/consumer_show.sql");

/// How far the consumer of an open capture was shown changes, as far as this process knows.
#[derive(Clone, Debug)]
pub(super) struct HighestSeen {
    consumer: Consumer,
    noted: Option<Noted>,
}

/// What the file says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    registration: i64,
    upto: Option<i64>,
}

impl HighestSeen {
    /// What is to be noted for a consumer that opened the capture; nothing when its store is in the same file.
    pub(super) fn to(connection: &Connection, consumer: &Consumer) -> rusqlite::Result<Option<Self>> {
        let here = identity_in(connection)?.is_some_and(|store| store == consumer.store);
        Ok((!here).then(|| HighestSeen { consumer: consumer.clone(), noted: None }))
    }

    /// The same, to be read from the file again before it is relied on.
    pub(super) fn unread(self) -> Self {
        HighestSeen { noted: None, ..self }
    }

    /// Whether changes up to here are known to be noted.
    pub(super) fn covers(&self, place: i64) -> bool {
        self.noted.and_then(|noted| noted.upto).is_some_and(|upto| place <= upto)
    }

    /// Refuses to read on from a place that this file has never shown. Returns what is noted now: other processes note too.
    pub(super) fn refuse_beyond(
        self,
        connection: &Connection,
        place: i64,
        names: &Names,
    ) -> Result<Self, Fault> {
        let now = HighestSeen { noted: noted(connection, &self.consumer)?, ..self };
        match now.noted.and_then(|noted| noted.upto) {
            Some(upto) if place > upto => {
                Err(names.never_shown(&Position::number(place as u64), upto).into())
            }
            _ => Ok(now),
        }
    }

    /// Notes that changes up to here are about to be shown. `None` when the consumer was registered anew in the meantime.
    pub(super) fn note(
        self,
        connection: &mut Connection,
        upto: i64,
        names: &Names,
    ) -> Result<Option<Self>, Fault> {
        let transaction = write(connection)?;
        let now = noted(&transaction, &self.consumer)?;
        let now = now.ok_or_else(|| names.not_registered(self.consumer.store.as_str()))?;
        if let Some(known) = self.noted {
            if known.registration != now.registration {
                return Ok(None);
            }
            if now.upto < known.upto {
                let (known, now) = (known.upto.unwrap_or(0), now.upto.unwrap_or(0));
                return Err(names.never_shown(&Position::number(known as u64), now).into());
            }
        }
        let upto = now.upto.map_or(upto, |now| now.max(upto));
        transaction.prepare_cached(SHOW)?.execute((now.registration, upto))?;
        transaction.commit()?;
        Ok(Some(HighestSeen { noted: Some(Noted { upto: Some(upto), ..now }), ..self }))
    }
}

/// Whether what was read may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noting {
    /// It is noted.
    Noted,
    /// The consumer was registered anew since: what was read may not be what it should see.
    ReadAgain,
}

impl Capture {
    /// Refuses cursors that stand beyond what this file has ever shown their consumer.
    pub(super) async fn refuse_unshown(&self, cursors: &[Cursor]) -> Result<(), SourceError> {
        let Some((shown, place)) = self.shown().zip(furthest_read(cursors)) else { return Ok(()) };
        if shown.covers(place) {
            return Ok(());
        }
        let names = self.settings.names.clone();
        let look = move |connection: &mut Connection| shown.refuse_beyond(connection, place, &names);
        let now = run(self.reading().await?, "looking at", look).await?;
        self.set_shown(Some(now));
        Ok(())
    }

    /// Makes a note of how far changes are shown, before they are.
    pub(super) async fn note_shown(&self, slices: &[Slice]) -> Result<Noting, SourceError> {
        let Some((shown, upto)) = self.shown().zip(furthest_shown(slices)) else {
            return Ok(Noting::Noted);
        };
        if shown.covers(upto) {
            return Ok(Noting::Noted);
        }
        let (names, before) = (self.settings.names.clone(), shown.clone());
        let note = move |connection: &mut Connection| shown.note(connection, upto, &names);
        match run(self.writing().await?, "noting what is read of", note).await? {
            Some(noted) => {
                self.set_shown(Some(noted));
                Ok(Noting::Noted)
            }
            None => {
                self.set_shown(Some(before.unread()));
                Ok(Noting::ReadAgain)
            }
        }
    }

    pub(super) fn shown(&self) -> Option<HighestSeen> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_shown(&self, shown: Option<HighestSeen>) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

fn noted(connection: &Connection, consumer: &Consumer) -> rusqlite::Result<Option<Noted>> {
    let who = (consumer.feed.as_str(), consumer.store.as_str());
    let noted = |row: &Row<'_>| Ok(Noted { registration: row.get(0)?, upto: row.get(1)? });
    connection.prepare_cached(SHOWN)?.query_row(who, noted).optional()
}

/// The furthest live place that these cursors stand at.
fn furthest_read(cursors: &[Cursor]) -> Option<i64> {
    furthest(cursors.iter().map(|cursor| &cursor.after))
}

/// The furthest live place that these slices lead to.
fn furthest_shown(slices: &[Slice]) -> Option<i64> {
    furthest(slices.iter().map(|slice| &slice.upto))
}

fn furthest<'a>(positions: impl Iterator<Item = &'a Position>) -> Option<i64> {
    let live = positions.filter_map(|position| match Place::parse(position) {
        Some(Place::Live(number)) => Some(number as i64),
        _ => None,
    });
    live.max()
}
