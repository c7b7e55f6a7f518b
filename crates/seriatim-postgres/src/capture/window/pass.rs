//! One pass over the rows after a place.

use std::fmt::Write as _;
use std::pin::pin;

use deadpool_postgres::Transaction;
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use seriatim::backend::rows::{PackedRow, other_form, separator};
use seriatim::backend::{ChangeHeader, Pages};
use seriatim::change::{Op, Position};
use seriatim::order::partition_of_hash;
use seriatim::source::window::rounded_down;
use seriatim::source::{Limit, Slice};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, RowStream};

use super::super::error::Fault;
use super::super::slices::Slices;
use super::errors::no_moment;
use super::moment::{EARLIEST, Kind, Micros, NoMoment};
use super::place::{Place, RowPlace, WindowPosition};
use super::relation::{Lower, Read, Reading, Relation, TieAs};
use super::settings::Settings;

/// Rows that are only passed over, for being stale, are passed in larger steps.
const MOST_PASSED: usize = 50_000;

/// What a pass is to do.
pub(super) struct Pass<'a> {
    pub transaction: &'a Transaction<'a>,
    pub settings: &'a Settings,
    pub relation: &'a Relation,
    /// Rows from this moment on are too young.
    pub finish: Timestamp,
    /// Rows before this moment are stale.
    pub stale_before: Timestamp,
    /// Where another cursor waits.
    pub until: Option<RowPlace>,
}

/// Where a pass has come to.
pub(super) struct Walk {
    pub at: WindowPosition,
    pub slices: Slices,
    looked_at: usize,
    /// The place of the next row.
    next: RowPlace,
    /// The row that was packed last, the hash of its key, and whether the filter holds for it.
    packed: PackedRow,
    hash: u64,
    matches: bool,
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

impl Walk {
    pub(super) fn new(at: WindowPosition, slices: Slices) -> Self {
        let next = RowPlace { raw: String::new(), tie: Vec::new(), at: Timestamp::MIN };
        let (packed, text) = (PackedRow::default(), String::new());
        Walk { at, slices, looked_at: 0, next, packed, hash: 0, matches: true, text }
    }

    /// What tells this version of the row that was packed last from all others.
    pub(super) fn version(&self) -> u64 {
        self.packed.version()
    }

    fn position(&mut self) -> Position {
        match &self.at.place {
            Place::Row(here) => here.position(&self.at.mark, &mut self.text),
            _ => self.at.position(),
        }
    }

    /// The page that is full; another one begins.
    fn turn_page(&mut self) -> Vec<Slice> {
        self.at.mark.forget_before(self.at.place.at());
        self.looked_at = 0;
        let next = self.slices.for_the_next_page();
        let upto = self.position();
        std::mem::replace(&mut self.slices, next).upto(&upto, false)
    }
}

/// The end of what is complete, where rows up to `horizon` are, in the column's own ticks.
pub(super) fn finish(settings: &Settings, kind: Kind, horizon: Timestamp) -> Timestamp {
    rounded_down(settings.rules.finish(horizon), kind.tick())
}

impl Pass<'_> {
    /// Walks on from a place.
    pub(super) async fn walk(&self, walk: &mut Walk, limit: Limit) -> Result<End, Fault> {
        if self.finish <= EARLIEST {
            return Ok(End::Complete);
        }
        let Some(separator) = self.separator(&walk.at.place).await? else { return Ok(End::Complete) };
        self.refuse_indistinct(&walk.at.place).await?;
        self.refuse_other_form(&walk.at.place).await?;
        if walk.at.place.at() < self.stale_before && self.drop_stale(walk, separator).await? == End::Full {
            return Ok(End::Full);
        }
        let page = self.page(limit);
        // Each number is a statement that the connection keeps, so there are few of them.
        let most = page.next_power_of_two();
        let mut rows = pin!(self.rows_after(&walk.at.place, separator, most).await?);
        let since = match walk.at.place {
            Place::Since(at) => at,
            _ => Timestamp::MIN,
        };
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            count += 1;
            if count > page {
                return Ok(End::Full);
            }
            match self.take(walk, &row, since) {
                Ok(()) => {}
                // Rows before one that cannot be passed do not wait for that: the next walk begins with it, and says so.
                Err(_) if count > 1 => return Ok(End::Full),
                Err(fault) => return Err(fault),
            }
            let met =
                matches!((&self.until, &walk.at.place), (Some(until), Place::Row(here)) if until == here);
            if met || walk.slices.full() {
                return Ok(End::Full);
            }
        }
        Ok(if count < most { End::Complete } else { End::Full })
    }

    /// The pages after a row that can be filled to the end: as many as would be read one by one, up to the limit together.
    pub(super) async fn full_pages(&self, walk: &mut Walk, limit: Limit) -> Result<Pages, Fault> {
        let Some(separator) = self.separator(&walk.at.place).await? else { return Ok(Pages::new()) };
        self.refuse_indistinct(&walk.at.place).await?;
        let page = self.page(limit);
        let mut bytes = 0;
        let mut pages = Pages::new();
        let mut rows = pin!(self.rows_after(&walk.at.place, separator, limit.rows / page * page).await?);
        while let Some(row) = rows.try_next().await? {
            if self.take(walk, &row, Timestamp::MIN).is_err() {
                break;
            }
            if walk.looked_at >= page || walk.slices.full() {
                bytes += walk.slices.bytes();
                pages.push(walk.turn_page());
            }
            if bytes >= limit.bytes {
                break;
            }
        }
        Ok(pages)
    }

    /// How many rows a page has.
    fn page(&self, limit: Limit) -> usize {
        limit.rows.min(self.settings.rules.excessive_count.get()).max(1)
    }

    async fn rows_after(&self, place: &Place, separator: u8, most: usize) -> Result<RowStream, Fault> {
        let upper = self.relation.kind.least(self.finish, separator);
        let reading = self.relation.after(place, Read::Rows, separator, Some(&upper), most);
        let statement = self.transaction.prepare_cached(&reading.sql).await?;
        Ok(self.transaction.query_raw(&statement, &reading.parameters).await?)
    }

    /// Passes to the next row, and delivers it unless it is from before the start.
    fn take(&self, walk: &mut Walk, row: &Row, since: Timestamp) -> Result<(), Fault> {
        let at = self.pass_to(walk, row, Read::Rows)?;
        walk.looked_at += 1;
        if at >= since {
            self.pack(walk, row);
            let id = walk.version();
            if !walk.at.mark.has(id) {
                self.deliver(walk, at, id);
            }
        }
        Ok(())
    }

    /// Passes over what is too old, and counts it.
    async fn drop_stale(&self, walk: &mut Walk, separator: u8) -> Result<End, Fault> {
        let upper = self.relation.kind.least(self.stale_before.min(self.finish), separator);
        let reading = self.relation.after(&walk.at.place, Read::Places, separator, Some(&upper), MOST_PASSED);
        let rows = self.query(&reading).await?;
        for (passed, row) in rows.iter().enumerate() {
            match self.pass_to(walk, row, Read::Places) {
                Ok(_) => walk.at.mark.dropped += 1,
                Err(_) if passed > 0 => return Ok(End::Full),
                Err(fault) => return Err(fault),
            }
        }
        Ok(if rows.len() < MOST_PASSED { End::Complete } else { End::Full })
    }

    /// The moment of the first row that is too young, if there is one.
    pub(super) async fn young(&self, place: &Place) -> Result<Option<Timestamp>, Fault> {
        let Some(separator) = self.separator(place).await? else { return Ok(None) };
        let least = self.relation.kind.least(self.finish.max(EARLIEST), separator);
        let reading = self.relation.reading(Read::Places, Lower::From(&least), None, 1);
        let rows = self.query(&reading).await?;
        // One that no calendar has never comes.
        Ok(rows.first().and_then(|row| self.moment(row, Read::Places).ok()))
    }

    /// What texts have between date and time, by the place or the first row; `None` when there is no row.
    pub(super) async fn separator(&self, place: &Place) -> Result<Option<u8>, Fault> {
        if self.relation.kind != Kind::Text {
            return Ok(Some(b' '));
        }
        let date = |at: Timestamp| jiff::tz::Offset::UTC.to_datetime(at).date().to_string();
        let reading = match place {
            Place::Row(row) => return Ok(separator(row.raw.as_bytes())),
            Place::Since(at) if *at > EARLIEST => {
                self.relation.reading(Read::Places, Lower::From(&date(*at)), None, 1)
            }
            _ => self.relation.reading(Read::Places, Lower::None, None, 1),
        };
        let rows = self.query(&reading).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut raw = String::new();
        self.checked_moment(row, Read::Places, &mut raw)?;
        Ok(separator(raw.as_bytes()))
    }

    /// Rows of the place's own moment without a key, or with the same one, would be passed over.
    async fn refuse_indistinct(&self, place: &Place) -> Result<(), Fault> {
        let Place::Row(here) = place else { return Ok(()) };
        if self.relation.tie_is_primary {
            return Ok(());
        }
        let mut parameters = vec![here.raw.clone()];
        parameters.extend(here.tie.iter().cloned());
        let rows = self.query(&Reading { sql: self.relation.indistinct(), parameters }).await?;
        if rows.iter().any(|row| row.get::<_, bool>(0)) {
            return Err(self.settings.null_in_tie().into());
        }
        if rows.len() > 1 {
            return Err(self.settings.key_not_unique(&here.tie.join(", ")).into());
        }
        Ok(())
    }

    /// Texts with a blank between date and time sort before all those of the same day with a `T`: behind a place of one of
    /// these they would never be read.
    async fn refuse_other_form(&self, place: &Place) -> Result<(), Fault> {
        let (Kind::Text, Place::Row(here)) = (self.relation.kind, place) else { return Ok(()) };
        let Some([first, end]) = other_form(here.raw.as_bytes()) else { return Ok(()) };
        let reading = self.relation.reading(Read::Places, Lower::From(&first), Some(&end), 1);
        let Some(row) = self.query(&reading).await?.pop() else { return Ok(()) };
        let found: &str = row.get(self.relation.layout(Read::Places).moment);
        let key = self.tie(&row, Read::Places).map_or_else(|| "NULL".to_owned(), |tie| tie.join(", "));
        Err(self.settings.mixed_forms(found, &format!("the key {key}")).into())
    }

    pub(super) async fn query(&self, reading: &Reading) -> Result<Vec<Row>, Fault> {
        let statement = self.transaction.prepare_cached(&reading.sql).await?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            reading.parameters.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
        Ok(self.transaction.query(&statement, &parameters).await?)
    }

    /// The moment of a row.
    pub(super) fn moment(&self, row: &Row, read: Read) -> Result<Timestamp, NoMoment> {
        self.write_moment(row, read, &mut String::new())
    }

    /// The moment of a row; as the table has it, it is the text.
    fn write_moment(&self, row: &Row, read: Read, raw: &mut String) -> Result<Timestamp, NoMoment> {
        let (kind, place) = (self.relation.kind, self.relation.layout(read).moment);
        raw.clear();
        match kind {
            Kind::Time { .. } | Kind::Date => {
                let Some(at) = row.get::<_, Micros>(place).timestamp() else {
                    raw.push_str("beyond the calendar");
                    return Err(NoMoment::OutOfRange);
                };
                kind.write(at, raw);
                return Ok(at);
            }
            Kind::Text => raw.push_str(row.get(place)),
            Kind::Number(_) => write_number(row.get(place), raw),
        }
        kind.moment(raw)
    }

    fn checked_moment(&self, row: &Row, read: Read, raw: &mut String) -> Result<Timestamp, Fault> {
        let moment = self.write_moment(row, read, raw);
        let said = |why: NoMoment| {
            let key = self.tie(row, read).map_or_else(|| "NULL".to_owned(), |tie| tie.join(", "));
            no_moment(self.settings, why, raw, &format!("the key {key}"))
        };
        Ok(moment.map_err(said)?)
    }

    /// What orders a row among those of its moment; `None` when it is NULL.
    pub(super) fn tie(&self, row: &Row, read: Read) -> Option<Vec<String>> {
        let mut tie = Vec::new();
        self.write_tie(row, read, &mut tie).then_some(tie)
    }

    /// Writes what orders a row among those of its moment, in the memory of what is there. Says whether nothing of it is NULL.
    fn write_tie(&self, row: &Row, read: Read, tie: &mut Vec<String>) -> bool {
        let layout = self.relation.layout(read);
        tie.resize_with(layout.ties.len(), String::new);
        layout.ties.iter().zip(tie).all(|((place, way), text)| {
            text.clear();
            match way {
                TieAs::Integer => row.get::<_, Option<i64>>(*place).map(|number| write_number(number, text)),
                TieAs::Text => row.get::<_, Option<&str>>(*place).map(|value| text.push_str(value)),
            }
            .is_some()
        })
    }

    /// Moves the place to this row.
    fn pass_to(&self, walk: &mut Walk, row: &Row, read: Read) -> Result<Timestamp, Fault> {
        let next = &mut walk.next;
        next.at = self.checked_moment(row, read, &mut next.raw)?;
        if !self.write_tie(row, read, &mut next.tie) {
            return Err(self.settings.null_in_tie().into());
        }
        let at = next.at;
        match &mut walk.at.place {
            Place::Row(last) => {
                let between = |place: &RowPlace| separator(place.raw.as_bytes());
                if self.relation.kind == Kind::Text && between(last) != between(next) {
                    let key = format!("the key {}", next.tie.join(", "));
                    return Err(self.settings.mixed_forms(&next.raw, &key).into());
                }
                if last == next {
                    return Err(self.settings.key_not_unique(&next.tie.join(", ")).into());
                }
                std::mem::swap(last, next);
            }
            place => *place = Place::Row(next.clone()),
        }
        Ok(at)
    }

    /// Reads the values of a row.
    pub(super) fn pack(&self, walk: &mut Walk, row: &Row) {
        let columns = self.relation.layout(Read::Rows).columns;
        walk.hash = self.relation.row.pack(row, columns, &mut walk.packed);
        walk.matches = self.relation.matches(row);
    }

    /// Adds the row that was packed last as a change at the present place, if it is wanted.
    pub(super) fn deliver(&self, walk: &mut Walk, at: Timestamp, id: u64) {
        if !self.is_wanted(walk) {
            return;
        }
        let happened = ChangeHeader { position: walk.position(), id, op: Op::Upsert, at };
        let partition = self.partition(walk);
        walk.packed.choose(self.relation.row.delivered_places());
        let after = (self.relation.row.delivered_names(), walk.packed.chosen());
        walk.slices.add_hashed(partition, happened, (walk.packed.key(), walk.hash), None, Some(after));
    }

    /// The partition of the row that was packed last, as the slices know it: the rest of a number is the number itself.
    fn partition(&self, walk: &Walk) -> i32 {
        partition_of_hash(walk.hash, self.settings.partitions).0 as i32
    }

    /// Whether the partition of the row that was packed last is asked for, and the filter holds for it.
    pub(super) fn is_wanted(&self, walk: &Walk) -> bool {
        walk.matches && walk.slices.wants(self.partition(walk))
    }
}

fn write_number(number: i64, text: &mut String) {
    write!(text, "{number}").expect("a text takes all that is written to it");
}
