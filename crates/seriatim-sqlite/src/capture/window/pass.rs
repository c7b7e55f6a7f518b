//! One pass over the rows after a place, in one read transaction.

use std::ops::ControlFlow;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};
use seriatim::backend::Pages;
use seriatim::backend::rows::{PackedRow, other_form, separator};
use seriatim::change::{Op, Position};
use seriatim::source::Limit;
use seriatim::source::window::rounded_down;

use super::super::error::Fault;
use super::super::row_filter::{RowFilter, sifted};
use super::super::slices::{ChangeHeader, Slices, Stepped, WantedKey};
use super::super::value::Exact;
use super::errors::no_moment;
use super::moment::{least, moment, resolution};
use super::place::{Place, RowPlace, WindowPosition, is_of};
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
    pub sieve: Option<&'a RowFilter>,
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
    pub at: WindowPosition,
    pub slices: Slices,
    /// Rows before this moment are from before the start, and do not count.
    since: Timestamp,
    /// It has passed a row.
    moved: bool,
    looked_at: usize,
    page: usize,
    /// Where page after page is filled: those that are full already, and how much more there may be.
    pages: Pages,
    further: Option<Limit>,
    /// The first row that is too young, if there is one.
    pub young: Option<Timestamp>,
    /// The row that was packed last.
    packed: PackedRow,
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

    /// Walks on from a place, to the end of one page at most.
    pub(super) fn walk<'a>(
        &'a self,
        from: WindowPosition,
        slices: Slices,
        limit: Limit,
    ) -> Result<(Walk<'a>, End), Fault> {
        self.refuse_other_form(&from.place)?;
        let mut walk = Walk::new(self, from, slices, self.page(limit));
        let passes_over = walk.since > Timestamp::MIN || self.stale_before > walk.at.place.at();
        let most = if passes_over { MOST_PASSED.max(walk.page) } else { walk.page };
        let end = walk.on(most)?;
        Ok((walk, end))
    }

    /// The pages after a row that can be filled to the end: as many as would be read one by one, up to the limit together.
    pub(super) fn full_pages(
        &self,
        from: WindowPosition,
        slices: Slices,
        limit: Limit,
    ) -> Result<Pages, Fault> {
        let page = self.page(limit);
        let mut walk = Walk::new(self, from, slices, page);
        walk.further = Some(limit);
        walk.on(limit.rows)?;
        Ok(walk.pages)
    }

    /// Texts with a blank between date and time sort before all those of the same day with a `T`: behind a place of one of
    /// these they would never be read.
    fn refuse_other_form(&self, place: &Place) -> Result<(), Fault> {
        let Place::Row(RowPlace { raw: Exact::Text(raw), .. }) = place else { return Ok(()) };
        let Some([first, end]) = other_form(raw) else { return Ok(()) };
        let mut each = |row: &Stepped<'_>| {
            let found = row.raw(self.relation.changed_at).as_bytes().unwrap_or_default().to_vec();
            let found = String::from_utf8_lossy(&found).into_owned();
            Ok(ControlFlow::Break(self.settings.mixed_forms(&found, &self.relation.shown(row))))
        };
        let bounds: [&dyn ToSql; 2] = [&first, &end];
        match run(self.connection, &self.relation.first_between(), &bounds, &mut each)?.0 {
            Some(mixed) => Err(mixed.into()),
            None => Ok(()),
        }
    }

    /// How many rows a page has.
    fn page(&self, limit: Limit) -> usize {
        limit.rows.min(self.settings.rules.excessive_count.get()).max(1)
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

impl<'a> Walk<'a> {
    fn new(pass: &'a Pass<'a>, at: WindowPosition, slices: Slices, page: usize) -> Self {
        let since = match at.place {
            Place::Since(at) => at,
            _ => Timestamp::MIN,
        };
        let (pages, packed, text) = (Pages::new(), PackedRow::default(), String::new());
        Walk {
            pass,
            at,
            slices,
            since,
            moved: false,
            looked_at: 0,
            page,
            pages,
            further: None,
            young: None,
            packed,
            text,
        }
    }

    /// Walks on over so many rows at most.
    fn on(&mut self, most: usize) -> Result<End, Fault> {
        let (pass, place) = (self.pass, self.at.place.clone());
        let mut stepped = 0;
        let end = pass.step(&place, Read::Rows, most, |row| {
            stepped += 1;
            self.row(row)
        })?;
        // Without a reason of the walk's own, the statements ended: at the last row, or at as many as were asked for.
        Ok(end.unwrap_or(if stepped < most { End::Complete } else { End::Full }))
    }

    fn row(&mut self, row: &Stepped<'_>) -> Result<ControlFlow<End>, Fault> {
        let at = match self.moment(row) {
            Ok(at) => at,
            Err(fault) => return self.stopped(fault),
        };
        if at >= self.pass.finish {
            self.young = Some(at);
            return Ok(ControlFlow::Break(End::Complete));
        }
        if let Err(fault) = self.refuse_mixed(row) {
            return self.stopped(fault);
        }
        self.pass_to(row, at)?;
        self.moved = true;
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
        Ok(if full { self.turn_page() } else { ControlFlow::Continue(()) })
    }

    /// A row that sorts after the last one cannot be passed. Those before it do not wait for that: the next walk begins with
    /// it, and says so.
    fn stopped(&self, fault: Fault) -> Result<ControlFlow<End>, Fault> {
        if self.moved { Ok(ControlFlow::Break(End::Full)) } else { Err(fault) }
    }

    /// The page is full: that was the last, or another one begins.
    fn turn_page(&mut self) -> ControlFlow<End> {
        let Some(further) = &mut self.further else { return ControlFlow::Break(End::Full) };
        self.at.mark.forget_before(self.at.place.at());
        let next = self.slices.for_the_next_page();
        let full = std::mem::replace(&mut self.slices, next);
        further.rows = further.rows.saturating_sub(self.looked_at);
        further.bytes = further.bytes.saturating_sub(full.bytes());
        let enough = further.rows < self.page || further.bytes == 0;
        self.pages.push(full.upto(&self.at.position(), false));
        self.looked_at = 0;
        if enough { ControlFlow::Break(End::Full) } else { ControlFlow::Continue(()) }
    }

    /// The moment of a row, or what is wrong with it.
    pub(super) fn moment(&self, row: &Stepped<'_>) -> Result<Timestamp, Fault> {
        let (settings, relation) = (self.pass.settings, self.pass.relation);
        let raw = row.raw(relation.changed_at);
        moment(raw, settings.unit)
            .map_err(|why| no_moment(settings, why, raw, &self.pass.relation.shown(row)).into())
    }

    /// Texts of another form than the last one's do not sort by time with it.
    fn refuse_mixed(&self, row: &Stepped<'_>) -> Result<(), Fault> {
        let Place::Row(RowPlace { raw: Exact::Text(last), .. }) = &self.at.place else { return Ok(()) };
        let (settings, relation) = (self.pass.settings, self.pass.relation);
        match row.raw(relation.changed_at) {
            ValueRef::Text(now) if separator(last) != separator(now) => {
                Err(settings.mixed_forms(&String::from_utf8_lossy(now), &relation.shown(row)).into())
            }
            _ => Ok(()),
        }
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
                if is_of(last, raw, tie()) {
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

    /// Packs the row, and says what tells this version of it from all others.
    pub(super) fn version(&mut self, row: &Stepped<'_>) -> u64 {
        self.packed.clear();
        for index in 0..self.pass.relation.columns.len() {
            self.packed.add(|packer| row.pack(index, packer));
        }
        self.packed.version()
    }

    /// Adds the row that was packed last as a change at the present place, if it is wanted.
    pub(super) fn deliver(&mut self, row: &Stepped<'_>, at: Timestamp, id: u64) -> Result<(), Fault> {
        let Some(key) = self.wanted(row)? else { return Ok(()) };
        let happened = ChangeHeader { position: self.position(), id, op: Op::Upsert, at };
        let Relation { key_columns, chosen, .. } = self.pass.relation;
        self.packed.choose(chosen.is_part().then_some(&*chosen.places));
        let image = (&chosen.columns, self.packed.chosen());
        self.slices.add_packed(&key, (key_columns, self.packed.key()), image, happened);
        Ok(())
    }

    /// The key of the row that was packed last, if its partition is asked for and the filter holds for it.
    pub(super) fn wanted(&mut self, row: &Stepped<'_>) -> Result<Option<WantedKey>, Fault> {
        let Pass { relation, sieve, .. } = *self.pass;
        let hash = self.packed.pack_key(&relation.key);
        let Some(key) = self.slices.wanted_hash(hash) else { return Ok(None) };
        Ok(sifted(sieve, row, Some(0), relation.chosen.of)?.map(|_| key))
    }

    fn position(&mut self) -> Position {
        match &self.at.place {
            Place::Row(here) => here.position(&self.at.mark, &mut self.text),
            _ => self.at.position(),
        }
    }
}
