//! One pass over the rows after a place, in one read transaction.

use std::ops::ControlFlow;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};
use seriatim::change::{Op, Position};
use seriatim::source::Limit;
use seriatim::source::window::rounded_down;
use seriatim::value::{Key, Packer};

use super::super::fault::Fault;
use super::super::sieve::{Sieve, sifted};
use super::super::slices::{Happened, Images, Slices, Stepped};
use super::super::value::{Exact, pack};
use super::moment::{least, moment, resolution, separator};
use super::place::{Mine, Place, RowPlace, position_of_row};
use super::relation::{Read, Relation};
use super::settings::Settings;

/// Rows that are only passed over, for being stale or from before the start, are passed in larger steps.
const MOST_PASSED: usize = 50_000;

/// What a pass is to do.
pub(super) struct Pass<'a> {
    pub connection: &'a Connection,
    pub settings: &'a Settings,
    pub relation: &'a Relation,
    /// The filter, if there is one.
    pub sieve: Option<&'a Sieve>,
    /// Rows from this moment on are too young.
    pub finish: Timestamp,
    /// Rows before this moment are stale.
    pub stale_before: Timestamp,
    /// Where another cursor waits.
    pub until: Option<RowPlace>,
}

/// Where a pass has come to.
pub(super) struct Walk<'a> {
    pass: &'a Pass<'a>,
    pub at: Mine,
    pub slices: Slices,
    /// Rows before this moment are from before the start, and do not count.
    since: Timestamp,
    looked_at: usize,
    page: usize,
    /// The first row that is too young, if there is one.
    pub young: Option<Timestamp>,
    version: Packer,
    text: String,
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything that is old enough is passed.
    Complete,
    /// There is more.
    Full,
}

impl Pass<'_> {
    /// The end of what is complete, where rows up to `horizon` are, in the column's own ticks.
    pub(super) fn finish(settings: &Settings, horizon: Timestamp) -> Timestamp {
        rounded_down(settings.rules.finish(horizon), resolution(settings.unit))
    }

    /// Walks on from a place.
    pub(super) fn walk<'a>(
        &'a self,
        from: Mine,
        slices: Slices,
        limit: Limit,
    ) -> Result<(Walk<'a>, End), Fault> {
        let since = match from.place {
            Place::Since(at) => at,
            _ => Timestamp::MIN,
        };
        let page = limit.rows.min(self.settings.rules.excessive_count.get()).max(1);
        let passes_over = since > Timestamp::MIN || self.stale_before > from.place.at();
        let most = if passes_over { MOST_PASSED.max(page) } else { page };
        let (version, text) = (Packer::default(), String::new());
        let place = from.place.clone();
        let mut walk =
            Walk { pass: self, at: from, slices, since, looked_at: 0, page, young: None, version, text };
        let mut stepped = 0;
        let end = self.step(&place, Read::Rows, most, |row| {
            stepped += 1;
            walk.row(row)
        })?;
        // Without a reason of the walk's own, the statements ended: at the last row, or at as many as were asked for.
        let ended = if stepped < most { End::Complete } else { End::Full };
        Ok((walk, end.unwrap_or(ended)))
    }

    /// Steps over the rows after a place, at most so many, until told to stop.
    pub(super) fn step<T>(
        &self,
        place: &Place,
        read: Read,
        most: usize,
        mut each: impl FnMut(&Stepped<'_>) -> Result<ControlFlow<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        let reading = self.relation.after(place, read);
        let mut left = most as i64;
        let least = match place {
            Place::Beginning => Exact::Integer(1),
            Place::Since(at) => least(*at, self.settings.unit, None),
            Place::Row(row) => row.raw.clone(),
        };
        if let (Some(same), Place::Row(row)) = (&reading.same, place) {
            let mut params: Vec<&dyn ToSql> = vec![&least, &left];
            params.extend(row.tie.iter().map(|value| value as &dyn ToSql));
            let (stop, count) = run(self.connection, same, &params, &mut each)?;
            if stop.is_some() {
                return Ok(stop);
            }
            left -= count;
        }
        if left <= 0 {
            return Ok(None);
        }
        Ok(run(self.connection, &reading.later, &[&least, &left], &mut each)?.0)
    }
}

impl Pass<'_> {
    /// Steps over the rows whose moments are this value or a greater one.
    pub(super) fn step_from<T>(
        &self,
        least: &Exact,
        read: Read,
        most: usize,
        mut each: impl FnMut(&Stepped<'_>) -> Result<ControlFlow<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        let reading = self.relation.after(&Place::Since(Timestamp::MIN), read);
        Ok(run(self.connection, &reading.later, &[least, &(most as i64)], &mut each)?.0)
    }
}

fn run<T>(
    connection: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
    each: &mut impl FnMut(&Stepped<'_>) -> Result<ControlFlow<T>, Fault>,
) -> Result<(Option<T>, i64), Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if let ControlFlow::Break(reason) = each(&Stepped(row))? {
            return Ok((Some(reason), count));
        }
    }
    Ok((None, count))
}

impl Walk<'_> {
    fn row(&mut self, row: &Stepped<'_>) -> Result<ControlFlow<End>, Fault> {
        let at = self.moment(row)?;
        if at >= self.pass.finish {
            self.young = Some(at);
            return Ok(ControlFlow::Break(End::Complete));
        }
        self.pass_to(row, at)?;
        if at < self.since {
            return Ok(ControlFlow::Continue(()));
        }
        if at < self.pass.stale_before {
            self.at.mark.dropped += 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.looked_at += 1;
        let id = self.version(row);
        if !self.at.mark.has(id) {
            self.deliver(row, at, id)?;
        }
        let met =
            matches!((&self.pass.until, &self.at.place), (Some(until), Place::Row(here)) if until == here);
        let full = met || self.looked_at >= self.page || self.slices.full();
        Ok(if full { ControlFlow::Break(End::Full) } else { ControlFlow::Continue(()) })
    }

    /// The moment of a row, or what is wrong with it.
    pub(super) fn moment(&self, row: &Stepped<'_>) -> Result<Timestamp, Fault> {
        let (settings, relation) = (self.pass.settings, self.pass.relation);
        let raw = row.raw(relation.changed_at);
        moment(raw, settings.unit)
            .map_err(|why| settings.no_moment(why, raw, &self.pass.relation.shown(row)).into())
    }

    /// Moves the place to this row, if it comes after the last one.
    fn pass_to(&mut self, row: &Stepped<'_>, at: Timestamp) -> Result<(), Fault> {
        let (settings, relation) = (self.pass.settings, self.pass.relation);
        let raw = row.raw(relation.changed_at);
        let tie = || relation.tie.iter().map(|index| row.raw(*index));
        if tie().any(|value| matches!(value, ValueRef::Null)) {
            return Err(settings.null_in_tie().into());
        }
        match &mut self.at.place {
            Place::Row(last) => {
                if let (Exact::Text(last), ValueRef::Text(now)) = (&last.raw, raw)
                    && separator(last) != separator(now)
                {
                    return Err(settings.mixed_forms(raw, &self.pass.relation.shown(row)).into());
                }
                if last.is(raw, tie()) {
                    return Err(settings.key_not_unique(&self.pass.relation.shown(row)).into());
                }
                last.raw.set(raw);
                last.at = at;
                last.tie.iter_mut().zip(tie()).for_each(|(last, value)| last.set(value));
            }
            other => {
                let tie = tie().map(Exact::from).collect();
                *other = Place::Row(RowPlace { raw: raw.into(), tie, at });
            }
        }
        Ok(())
    }

    /// What tells this version of the row from all others: a number made of everything in it. The row as it is now, delivered
    /// again, has it again; one with other values has another, even if its moment is the same.
    pub(super) fn version(&mut self, row: &Stepped<'_>) -> u64 {
        self.version.clear();
        (0..self.pass.relation.columns.len()).for_each(|index| pack(&mut self.version, row.raw(index)));
        Key::hash_of(self.version.since(0)) & i64::MAX as u64
    }

    /// Adds the row as a change at the present place, if its partition is asked for and the filter holds for it.
    pub(super) fn deliver(&mut self, row: &Stepped<'_>, at: Timestamp, id: u64) -> Result<(), Fault> {
        let Pass { relation, sieve, .. } = *self.pass;
        let Some(key) = self.slices.wanted(row, relation.key.iter().copied()) else { return Ok(()) };
        if sifted(sieve, row, Some(0), relation.chosen.of)?.is_none() {
            return Ok(());
        }
        let happened = Happened { position: self.position(), id, op: Op::Upsert, at };
        let images = Images { chosen: &relation.chosen, before: None, after: Some(0) };
        self.slices.add(row, &key, &relation.key_columns, &images, happened);
        Ok(())
    }

    /// Whether the row's partition is asked for and the filter holds for it.
    pub(super) fn is_wanted(&mut self, row: &Stepped<'_>) -> Result<bool, Fault> {
        let Pass { relation, sieve, .. } = *self.pass;
        Ok(self.slices.wanted(row, relation.key.iter().copied()).is_some()
            && sifted(sieve, row, Some(0), relation.chosen.of)?.is_some())
    }

    fn position(&mut self) -> Position {
        match &self.at.place {
            Place::Row(here) => {
                let tie = here.tie.iter().map(Exact::as_value);
                position_of_row(&mut self.text, here.raw.as_value(), tie, &self.at.mark)
            }
            _ => self.at.position(),
        }
    }
}
