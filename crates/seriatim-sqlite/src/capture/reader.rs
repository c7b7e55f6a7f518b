//! What the reading connection knows from one call to the next, and how it serves a read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use seriatim::change::Position;
use seriatim::source::{Cursor, Limit, Slice};

use super::error::Fault;
use super::install;
use super::journal::backfill::{self, Chunk, FirstChanges};
use super::journal::live::{self, Span};
use super::log::read::{self as log, Deletes};
use super::log::seed;
use super::position::{BackfillPlace, Group, Place};
use super::registry;
use super::row_filter::RowFilter;
use super::settings::Settings;
use super::slices::Slices;
use super::watched::{self, Shared, Watched};
use seriatim::backend::Kind;

/// What is known from one call to the next. Only the connections' threads lock it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The capture, once it is found: from then on the table may be renamed.
    pub capture: Option<i64>,
    watched: Option<(i64, Shared)>,
    /// The filter, for the table as it looked at that version of the schema.
    sieve: Option<(i64, Option<RowFilter>)>,
    first_changes: Option<FirstChanges>,
    last_read: Option<Sight>,
    /// The last number drawn when the triggers were last seen to be right.
    pub verified: Option<i64>,
}

/// The state of the file at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    data_version: i64,
    schema_version: i64,
    head: i64,
}

/// What came of a read.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The slices that were asked for.
    Slices(Vec<Slice>),
    /// The triggers must be brought up to date first.
    Outdated,
    /// What ignored and failed statements left must be settled first.
    LeftOver,
}

/// Whether a read asks first for changes that nobody has told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOver {
    First,
    /// They are told by the next read.
    Later,
}

/// A reader, shared with the threads of the connections.
pub(super) type SharedReader = Arc<Mutex<Reader>>;

/// Locks the reader. What a thread that panicked left behind is still true.
pub(super) fn locked(reader: &SharedReader) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(&format!("pragma {name}"))?.query_row([], |row| row.get(0))
}

impl Reader {
    /// The watched table as it is now. Looks at the schema again only when it changed.
    pub(super) fn watched(&mut self, connection: &Connection, settings: &Settings) -> Result<Shared, Fault> {
        let version = pragma(connection, "schema_version")?;
        if let Some((known, watched)) = &self.watched
            && *known == version
        {
            return Ok(watched.clone());
        }
        let found = match self.capture {
            Some(capture) => Watched::by_id(connection, capture, &settings.names)?,
            None => Watched::by_settings(connection, settings)?,
        };
        let found = found.ok_or_else(|| settings.names.not_installed())?;
        let watched = Arc::new(found.choosing(settings)?);
        self.capture = Some(watched.objects.capture);
        self.watched = Some((version, watched.clone()));
        Ok(watched)
    }

    /// The filter as it is for the table as it is now.
    fn sieve(
        &mut self,
        connection: &Connection,
        watched: &Watched,
        settings: &Settings,
    ) -> Result<Option<&RowFilter>, Fault> {
        let version = pragma(connection, "schema_version")?;
        if self.sieve.as_ref().is_none_or(|(known, _)| *known != version) {
            self.sieve = Some((version, watched::sieve(connection, &watched.table, settings)?));
        }
        Ok(self.sieve.as_ref().and_then(|(_, sieve)| sieve.as_ref()))
    }

    /// Reads on for the cursors that stand furthest behind.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        cursors: &[Cursor],
        limit: Limit,
        left_over: LeftOver,
    ) -> Result<Outcome, Fault> {
        let group =
            Group::furthest_behind(cursors).map_err(|foreign| settings.names.not_a_position(&foreign))?;
        let Some(group) = group else { return Ok(Outcome::Slices(Vec::new())) };
        let transaction = connection.transaction()?;
        let watched = self.watched(&transaction, settings)?;
        if watched.outdated {
            return Ok(Outcome::Outdated);
        }
        if left_over == LeftOver::First && install::left_over(&transaction, &watched)? {
            return Ok(Outcome::LeftOver);
        }
        let head = head_of(&transaction, &watched)?;
        let sight = Sight::of(&transaction, head)?;
        // Forgotten until it is done: an error on the way rolls the temporary table back.
        let first_changes = self.first_changes.take();
        let sieve = self.sieve(&transaction, &watched, settings)?;
        let pass = Pass { connection: &transaction, settings, watched: &watched, sieve, head };
        let slices = Slices::new(&settings.names.feed, settings.partitions, &group.members, limit)
            .with_whole_numbers(watched.whole_keys());
        let ahead = group.most.unwrap_or(u64::MAX);
        let rows = limit.rows.max(1);
        let (found, first_changes) = match &group.at {
            Place::Live(after) => (pass.live(*after, ahead, rows, slices)?, first_changes),
            Place::Backfill(after) => {
                let rows = rows.min(usize::try_from(ahead).unwrap_or(usize::MAX));
                let (slices, filled) = pass.snapshot(after, rows, first_changes, slices)?;
                (slices, Some(filled))
            }
        };
        transaction.commit()?;
        self.first_changes = first_changes;
        self.last_read = Some(sight);
        self.verified = Some(sight.head);
        Ok(Outcome::Slices(found))
    }

    /// Whether anything that concerns this feed was committed since the last read began.
    pub(super) fn something_new(
        &mut self,
        connection: &Connection,
        settings: &Settings,
    ) -> Result<bool, Fault> {
        let Some(last) = self.last_read else { return Ok(true) };
        let data_version = pragma(connection, "data_version")?;
        if data_version == last.data_version {
            return Ok(false);
        }
        // Most commits to a file that is also the store are the store's own: those are nothing new here.
        let watched = self.watched(connection, settings)?;
        let now = Sight::of(connection, head_of(connection, &watched)?)?;
        if (now.head, now.schema_version) == (last.head, last.schema_version)
            && !install::left_over(connection, &watched)?
        {
            self.last_read = Some(Sight { data_version, ..last });
            return Ok(false);
        }
        Ok(true)
    }
}

impl Sight {
    fn of(connection: &Connection, head: i64) -> rusqlite::Result<Self> {
        let (data_version, schema_version) =
            (pragma(connection, "data_version")?, pragma(connection, "schema_version")?);
        Ok(Sight { data_version, schema_version, head })
    }
}

fn head_of(connection: &Connection, watched: &Watched) -> rusqlite::Result<i64> {
    registry::head(connection, watched.objects)
}

/// One pass over the changes or over the snapshot, in one transaction.
struct Pass<'a> {
    connection: &'a Connection,
    settings: &'a Settings,
    watched: &'a Watched,
    sieve: Option<&'a RowFilter>,
    head: i64,
}

impl Pass<'_> {
    fn live(&self, after: u64, ahead: u64, rows: usize, slices: Slices) -> Result<Vec<Slice>, Fault> {
        check_live(self.connection, self.settings, self.watched, after, self.head)?;
        let after = after as i64;
        let upto = self.head.min(after.saturating_add_unsigned(ahead));
        let span = Span { after, upto, rows, head: self.head };
        Ok(match self.settings.kind {
            Kind::Journal => {
                live::read(self.connection, self.watched, self.sieve, &span, &self.settings.names, slices)?
            }
            Kind::Log => {
                let deletes = deletes(self.settings);
                log::read(
                    self.connection,
                    self.watched,
                    self.sieve,
                    &span,
                    deletes,
                    &self.settings.names,
                    slices,
                )?
            }
        })
    }

    fn snapshot(
        &self,
        after: &BackfillPlace,
        rows: usize,
        known: Option<FirstChanges>,
        slices: Slices,
    ) -> Result<(Vec<Slice>, FirstChanges), Fault> {
        let registration = registry::registration_by_id(self.connection, after.registration)?
            .filter(|registration| registration.capture == self.watched.objects.capture);
        let Some(registration) = registration else {
            return Err(self.settings.names.snapshot_gone(&Place::Backfill(after.clone()).position()).into());
        };
        let filled = FirstChanges::fill(known, self.connection, self.watched, &registration, self.head)?;
        let chunk = Chunk { registration: &registration, after, rows };
        Ok((backfill::read(self.connection, self.watched, self.sieve, &chunk, slices)?, filled))
    }
}

fn deletes(settings: &Settings) -> Deletes {
    if settings.deletes { Deletes::Delivered } else { Deletes::PassedOver }
}

/// Refuses a live position that is not retained, or that this file has never reached.
pub(super) fn check_live(
    connection: &Connection,
    settings: &Settings,
    watched: &Watched,
    after: u64,
    head: i64,
) -> Result<(), Fault> {
    let names = &settings.names;
    let Some(entry) = registry::entry(connection, watched.objects.capture, names)? else {
        return Err(names.not_installed().into());
    };
    let position = Position::number(after);
    if (after as i64) < entry.floor {
        return Err(names.fell_behind(&position, entry.floor, head).into());
    }
    if after as i64 > head {
        return Err(names.beyond_head(&position, head).into());
    }
    if settings.kind == Kind::Log
        && (after as i64) < entry.seeds
        && entry.seeded.as_deref() != Some(seed::DONE)
    {
        return Err(names.not_seeded().into());
    }
    Ok(())
}
