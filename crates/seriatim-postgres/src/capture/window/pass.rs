//! One pass over the rows after a place.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use seriatim::change::Op;
use seriatim::order::partition_of_hash;
use seriatim::source::window::rounded_down;
use seriatim::source::{Happened, Limit};
use seriatim::value::{Key, Packer};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::super::fault::Fault;
use super::super::slices::Slices;
use super::moment::{EARLIEST, Kind, Micros, NoMoment, separator};
use super::place::{Mine, Place, RowPlace};
use super::relation::{Lower, Read, Reading, Relation};
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
    pub at: Mine,
    pub slices: Slices,
    /// The row that was packed last: its values, where each ends, and its key.
    image: Packer,
    ends: Vec<usize>,
    key: Packer,
    /// What is delivered of it.
    room: Packer,
    /// The filter holds for it.
    matches: bool,
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
    pub(super) fn new(at: Mine, slices: Slices) -> Self {
        let [image, key, room] = Default::default();
        Walk { at, slices, image, ends: Vec::new(), key, room, matches: true }
    }

    /// What tells this version of the row from all others: a number made of everything in it. The row as it is now, delivered
    /// again, has it again; one with other values has another, even if its moment is the same.
    pub(super) fn version(&self) -> u64 {
        Key::hash_of(self.image.since(0)) & i64::MAX as u64
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
        if walk.at.place.at() < self.stale_before && self.drop_stale(walk, separator).await? == End::Full {
            return Ok(End::Full);
        }
        let since = match walk.at.place {
            Place::Since(at) => at,
            _ => Timestamp::MIN,
        };
        let page = limit.rows.min(self.settings.rules.excessive_count.get()).max(1);
        let upper = self.relation.kind.least(self.finish, separator);
        // Each number is a statement that the connection keeps, so there are few of them.
        let most = page.next_power_of_two();
        let reading = self.relation.after(&walk.at.place, Read::Rows, separator, Some(&upper), most);
        let rows = self.query(&reading).await?;
        for row in rows.iter().take(page) {
            let at = self.pass_to(walk, row)?;
            if at >= since {
                self.pack(walk, row);
                let id = walk.version();
                if !walk.at.mark.has(id) {
                    self.deliver(walk, at, id);
                }
            }
            let met =
                matches!((&self.until, &walk.at.place), (Some(until), Place::Row(here)) if until == here);
            if met || walk.slices.full() {
                return Ok(End::Full);
            }
        }
        let complete = rows.len() <= page && rows.len() < most;
        Ok(if complete { End::Complete } else { End::Full })
    }

    /// Passes over what is too old, and counts it.
    async fn drop_stale(&self, walk: &mut Walk, separator: char) -> Result<End, Fault> {
        let upper = self.relation.kind.least(self.stale_before.min(self.finish), separator);
        let reading = self.relation.after(&walk.at.place, Read::Places, separator, Some(&upper), MOST_PASSED);
        let rows = self.query(&reading).await?;
        for row in &rows {
            self.pass_to(walk, row)?;
            walk.at.mark.dropped += 1;
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
        Ok(rows.first().and_then(|row| self.moment(row).ok()).map(|(_, at)| at))
    }

    /// What texts have between date and time, by the place or the first row; `None` when there is no row.
    pub(super) async fn separator(&self, place: &Place) -> Result<Option<char>, Fault> {
        if self.relation.kind != Kind::Text {
            return Ok(Some(' '));
        }
        let date = |at: Timestamp| jiff::tz::Offset::UTC.to_datetime(at).date().to_string();
        let reading = match place {
            Place::Row(row) => return Ok(separator(&row.raw)),
            Place::Since(at) if *at > EARLIEST => {
                self.relation.reading(Read::Places, Lower::From(&date(*at)), None, 1)
            }
            _ => self.relation.reading(Read::Places, Lower::None, None, 1),
        };
        let rows = self.query(&reading).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(separator(&self.checked_moment(row)?.0))
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

    pub(super) async fn query(&self, reading: &Reading) -> Result<Vec<Row>, Fault> {
        let statement = self.transaction.prepare_cached(&reading.sql).await?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            reading.parameters.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
        Ok(self.transaction.query(&statement, &parameters).await?)
    }

    /// The moment of a row, as the table has it and as it is.
    pub(super) fn moment(&self, row: &Row) -> Result<(String, Timestamp), (String, NoMoment)> {
        let kind = self.relation.kind;
        if kind.is_of_calendar() {
            let at = row.get::<_, Micros>(0).timestamp();
            let at = at.ok_or_else(|| ("beyond the calendar".to_owned(), NoMoment::OutOfRange))?;
            return Ok((kind.written(at), at));
        }
        let raw = match kind {
            Kind::Text => row.get::<_, String>(0),
            _ => row.get::<_, i64>(0).to_string(),
        };
        match kind.moment(&raw) {
            Ok(at) => Ok((raw, at)),
            Err(why) => Err((raw, why)),
        }
    }

    fn checked_moment(&self, row: &Row) -> Result<(String, Timestamp), Fault> {
        let said = |(found, why): (String, NoMoment)| {
            let key = self.tie(row).map_or_else(|| "NULL".to_owned(), |tie| tie.join(", "));
            self.settings.no_moment(why, &found, &format!("the key {key}"))
        };
        Ok(self.moment(row).map_err(said)?)
    }

    /// What orders a row among those of its moment; `None` when it is NULL.
    pub(super) fn tie(&self, row: &Row) -> Option<Vec<String>> {
        (1..=self.relation.ties()).map(|index| row.get(index)).collect()
    }

    /// Moves the place to this row.
    fn pass_to(&self, walk: &mut Walk, row: &Row) -> Result<Timestamp, Fault> {
        let (raw, at) = self.checked_moment(row)?;
        let tie = self.tie(row).ok_or_else(|| self.settings.null_in_tie())?;
        if let Place::Row(last) = &walk.at.place {
            if self.relation.kind == Kind::Text && separator(&last.raw) != separator(&raw) {
                return Err(self.settings.mixed_forms(&raw, &format!("the key {}", tie.join(", "))).into());
            }
            if last.raw == raw && last.tie == tie {
                return Err(self.settings.key_not_unique(&tie.join(", ")).into());
            }
        }
        walk.at.place = Place::Row(RowPlace { raw, tie, at });
        Ok(at)
    }

    /// Reads the values of a row.
    pub(super) fn pack(&self, walk: &mut Walk, row: &Row) {
        walk.image.clear();
        walk.key.clear();
        self.relation.row.pack(row, 1 + self.relation.ties(), &mut walk.image, &mut walk.ends);
        self.relation.row.pack_key(&walk.image, &walk.ends, &mut walk.key);
        walk.matches = self.relation.matches(row);
    }

    /// Adds the row that was packed last as a change at the present place, if it is wanted.
    pub(super) fn deliver(&self, walk: &mut Walk, at: Timestamp, id: u64) {
        if !self.is_wanted(walk) {
            return;
        }
        let happened = Happened { position: walk.at.position(), id, op: Op::Upsert, at };
        let partition = self.partition(walk);
        let after = self.relation.row.delivered(&walk.image, &walk.ends, &mut walk.room);
        walk.slices.add(partition, happened, walk.key.since(0), None, Some(after));
    }

    /// The partition of the row that was packed last, as the slices know it: the rest of a number is the number itself.
    fn partition(&self, walk: &Walk) -> i32 {
        partition_of_hash(Key::hash_of(walk.key.since(0)), self.settings.partitions).0 as i32
    }

    /// Whether the partition of the row that was packed last is asked for, and the filter holds for it.
    pub(super) fn is_wanted(&self, walk: &Walk) -> bool {
        walk.matches && walk.slices.wants(self.partition(walk))
    }
}
