//! What the reading connection knows from one look to the next, and how it serves a read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rusqlite::Connection;
use seriatim::backend::HotRows;
use seriatim::backend::{Pages, Wanted};
use seriatim::change::Position;
use seriatim::source::{Cursor, Limit, Slice};

use super::super::error::Fault;
use super::super::row_filter::RowFilter;
use super::super::slices::Slices;
use super::horizon::{self, Asked};
use super::hot_rows;
use super::pass::{End, Pass};
use super::place::{Group, Place};
use super::relation::Relation;
use super::settings::{Horizon, Settings, patience, spelling};

/// What is known from one look to the next. Only the connection's thread locks it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    relation: Option<(i64, Arc<Relation>)>,
    /// The filter on its rows.
    sieve: Option<RowFilter>,
    /// The last horizon.
    horizon: Option<Timestamp>,
    /// Everything before that horizon is read.
    exhausted: bool,
    /// The file cannot be locked, so the horizon is the buffer's.
    read_only: bool,
    /// The horizon of the first look: whatever was there then has been seen when the windows have passed it.
    begun: Option<Timestamp>,
    /// The state of the file at the last look, and whether there were rows in it that were too young.
    seen: Option<i64>,
    young: bool,
    restless: HotRows<u64>,
    told_beginning: bool,
}

/// A memory, shared with the connection's thread.
pub(super) type SharedMemory = Arc<Mutex<Memory>>;

/// Locks the memory. What a thread that panicked left behind is still true.
pub(super) fn locked(memory: &SharedMemory) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(&format!("pragma {name}"))?.query_row([], |row| row.get(0))
}

impl Memory {
    /// The rows that the window is over. Looks at the schema again only when it changed.
    pub(super) fn relation(
        &mut self,
        connection: &Connection,
        settings: &Settings,
    ) -> Result<Arc<Relation>, Fault> {
        let version = pragma(connection, "schema_version")?;
        if let Some((known, relation)) = &self.relation
            && *known == version
        {
            return Ok(Arc::clone(relation));
        }
        let relation = Arc::new(Relation::inspect(connection, settings)?);
        self.sieve = relation.sieve(connection, settings)?;
        self.relation = Some((version, Arc::clone(&relation)));
        Ok(relation)
    }

    /// Reads on for the cursors that stand furthest behind.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        cursors: &[Cursor],
        limit: Limit,
    ) -> Result<Vec<Slice>, Fault> {
        let Some(mut group) = self.group(settings, cursors)? else { return Ok(Vec::new()) };
        self.move_horizon(connection, settings)?;
        let slices = Slices::new(&settings.names.feed, settings.partitions, &group.members, limit);
        let Some(horizon) = self.horizon else {
            return Ok(slices.upto(&group.at.position(), false));
        };
        // No row is passed before its moment is behind the horizon by the buffer.
        if let Place::Row(passed) = &group.at.place
            && passed.at > horizon
        {
            return Err(settings.clock_went_back(passed.at, horizon).into());
        }
        if group.at.place == Place::Beginning {
            group.at.place = self.begin(settings, horizon);
        }
        // Nothing that is committed from here on is older than the horizon, so it may well be seen later.
        let transaction = connection.transaction()?;
        let relation = self.relation(&transaction, settings)?;
        self.seen = Some(pragma(&transaction, "data_version")?);
        let pass = Pass {
            connection: &transaction,
            settings,
            relation: &relation,
            sieve: self.sieve.as_ref(),
            finish: Pass::finish(settings, horizon),
            stale_before: settings.rules.stale_before(horizon),
            until: group.until,
        };
        let dropped_before = group.at.mark.dropped;
        let (mut walk, end) = pass.walk(group.at, slices, limit)?;
        if self.restless.is_due(horizon, patience(settings)) {
            hot_rows::deliver(&mut walk, &pass, &mut self.restless, horizon)?;
        }
        if walk.at.mark.dropped > dropped_before {
            let dropped = walk.at.mark.dropped - dropped_before;
            tracing::warn!(feed = %settings.names.feed, dropped, before = %pass.stale_before, "dropped stale rows");
        }
        let passed = if end == End::Complete { pass.finish } else { walk.at.place.at() };
        walk.at.mark.forget_before(passed);
        self.exhausted = end == End::Complete;
        self.young = walk.young.is_some();
        let caught_up = end == End::Complete && self.has_caught_up(walk.young, pass.finish, horizon);
        Ok(walk.slices.upto(&walk.at.position(), caught_up))
    }

    /// Reads full pages on after rows that were read, within the horizon that they were read with; none where that would tell
    /// anything new about the feed: then a read for itself has to.
    ///
    /// Nothing is committed any more that is older than the horizon, so such a page is as right when it is handed out as when it
    /// was read. A row in it that changes in between has a later moment, and comes again.
    pub(super) fn read_ahead(
        &mut self,
        connection: &mut Connection,
        settings: &Settings,
        wanted: &Wanted,
    ) -> Result<Pages, Fault> {
        let Some(horizon) = self.horizon.filter(|_| !self.exhausted) else { return Ok(Pages::new()) };
        let Some(group) = self.group(settings, &wanted.cursors)? else { return Ok(Pages::new()) };
        let finish = Pass::finish(settings, horizon);
        let stale_before = settings.rules.stale_before(horizon);
        let stands_together = group.members.len() == wanted.cursors.len();
        let passed = matches!(&group.at.place, Place::Row(row) if row.at >= stale_before && row.at < finish);
        if !stands_together || !passed {
            return Ok(Pages::new());
        }
        let slices = Slices::new(&settings.names.feed, settings.partitions, &group.members, wanted.limit);
        let transaction = connection.transaction()?;
        let relation = self.relation(&transaction, settings)?;
        let pass = Pass {
            connection: &transaction,
            settings,
            relation: &relation,
            sieve: self.sieve.as_ref(),
            finish,
            stale_before,
            until: None,
        };
        pass.full_pages(group.at, slices, wanted.limit)
    }

    fn group(&self, settings: &Settings, cursors: &[Cursor]) -> Result<Option<Group>, Fault> {
        let foreign = |position: Position| settings.names.not_a_position(&position).into();
        Group::furthest_behind(cursors, spelling(settings)).map_err(foreign)
    }

    /// Whether there is more to read within the horizon.
    pub(super) fn is_behind(&self) -> bool {
        self.horizon.is_some() && !self.exhausted
    }

    /// Whether all that was committed when it first looked has been seen. What is ahead of its time does not count.
    fn has_caught_up(&self, young: Option<Timestamp>, finish: Timestamp, horizon: Timestamp) -> bool {
        let waits = young.is_some_and(|at| at <= horizon);
        !waits || self.begun.is_some_and(|begun| finish > begun)
    }

    /// A new horizon, unless the last one is not read up to yet, or somebody is writing: then it stays where it was.
    fn move_horizon(&mut self, connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
        if self.horizon.is_some() && !self.exhausted {
            return Ok(());
        }
        if settings.horizon == Horizon::Exact && !self.read_only {
            match horizon::exact(connection, horizon::LOOK)? {
                Asked::At(at) => self.horizon = Some(at),
                Asked::Busy => {}
                Asked::ReadOnly => self.fall_back(settings),
            }
        }
        if settings.horizon == Horizon::Buffer || self.read_only {
            self.horizon = Some(horizon::present(connection)?);
        }
        self.begun = self.begun.or(self.horizon);
        Ok(())
    }

    fn fall_back(&mut self, settings: &Settings) {
        self.read_only = true;
        let (feed, file, buffer) = (&settings.names.feed, &settings.names.home, settings.rules.buffer);
        tracing::warn!(
            %feed,
            "{file} cannot be locked, so nobody can tell whether a transaction is open in it: \
             what is committed more than {buffer:?} after its own moment will be missed"
        );
    }

    /// Where a feed begins that has no tracker.
    fn begin(&mut self, settings: &Settings, horizon: Timestamp) -> Place {
        let (place, from) = settings.beginning(horizon);
        if !std::mem::replace(&mut self.told_beginning, true) {
            tracing::info!(feed = %settings.names.feed, "there is no tracker: beginning with {from}");
        }
        place
    }

    /// Whether another look may find more.
    pub(super) fn something_new(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let now = pragma(connection, "data_version")?;
        Ok(self.young || !self.exhausted || self.seen != Some(now))
    }
}
