//! How far behind the partitions are, and who holds them back.

use rusqlite::Connection;
use seriatim::backend::Packer;
use seriatim::order::partition_of_hash;
use seriatim::source::{Blocker, Cursor, Lag};
use seriatim::value::Key;

use super::books;
use super::consumers::now;
use super::error::Fault;
use super::journal::flight::CHANGES;
use super::names::Objects;
use super::position::Place;
use super::registry;
use super::settings::Settings;
use super::slices::{Stepped, time};
use super::sql::list;
use super::watched::Watched;
use seriatim::backend::Kind;

const STALE: &str = include_str!("../../queries/consumer_stale.sql");

/// Beyond this many changes, counting costs more than the number is worth.
const MOST_COUNTED: i64 = 2_000_000;

/// A consumer that said nothing for so long is not just busy.
pub(super) const STALE_AFTER_MS: i64 = 60 * 1000;

const UNKNOWN: Lag = Lag { changes: None, seconds: None };

/// The lag of each cursor, by one pass over the changes after the first of them.
pub(super) fn lag(
    connection: &Connection,
    settings: &Settings,
    watched: &Watched,
    cursors: &[Cursor],
) -> Result<Vec<Lag>, Fault> {
    let mut tally = Tally::new(settings, cursors)?;
    let now = now(connection)?;
    let Some(first) = tally.first() else { return Ok(tally.lags(now, false)) };
    if first >= registry::head(connection, watched.objects)? {
        return Ok(tally.lags(now, true));
    }
    let mut statement = connection.prepare_cached(&select(watched))?;
    let mut rows = statement.query((first, MOST_COUNTED))?;
    let mut counted = 0;
    while let Some(row) = rows.next()? {
        tally.count(watched, &Stepped(row));
        counted += 1;
    }
    Ok(tally.lags(now, counted < MOST_COUNTED))
}

/// Consumers that hold the retention back and that nobody has heard of for some time.
pub(super) fn blockers(connection: &Connection, watched: &Watched) -> rusqlite::Result<Vec<Blocker>> {
    let now = now(connection)?;
    let objects = watched.objects;
    let mut statement = connection.prepare_cached(STALE)?;
    let mut rows =
        statement.query((objects.capture, now - STALE_AFTER_MS, registry::head(connection, objects)?))?;
    let mut blockers = Vec::new();
    while let Some(row) = rows.next()? {
        let (feed, store): (String, String) = (row.get(0)?, row.get(1)?);
        let (consumed, seen_at): (i64, i64) = (row.get(2)?, row.get(3)?);
        let held = held_since(connection, objects, consumed)?;
        if held == 0 {
            continue;
        }
        let held = if held < MOST_COUNTED { held.to_string() } else { format!("more than {held}") };
        blockers.push(Blocker {
            what: format!(
                "feed {feed} of store {store} was last seen {} ago and keeps {held} changes from being pruned",
                span(now - seen_at)
            ),
            remedy: format!(
                "go on with `seriatim run {feed}`, or `seriatim unwatch {feed} --store {store}` if it is not needed any more"
            ),
            since: Some(time(seen_at)),
            of: books::consumer(&feed, &store),
        });
    }
    Ok(blockers)
}

/// How many changes there are after a place.
fn held_since(connection: &Connection, objects: Objects, consumed: i64) -> rusqlite::Result<i64> {
    let sql = format!("select count(*) from (select 1 from {} where rowid > ?1 limit ?2)", objects.changes());
    connection.prepare_cached(&sql)?.query_row((consumed, MOST_COUNTED), |row| row.get(0))
}

/// A span of time in words.
fn span(ms: i64) -> String {
    match ms / 1000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// `place, at, first, first_at, key…` of every change after a place.
fn select(watched: &Watched) -> String {
    let changes = watched.objects.changes();
    match watched.objects.kind {
        Kind::Journal => {
            let key = list(
                watched.key.iter().map(|slot| format!("case op when 3 then old_{slot} else new_{slot} end")),
            );
            format!(
                "select id, at, id, at, {key} from {changes} where id > ?1 and {CHANGES} order by id limit ?2"
            )
        }
        Kind::Log => {
            let key = list((0..watched.key.len()).map(|index| format!("k{index}")));
            format!(
                "select seq, at, first, first_at, {key} from {changes} where seq > ?1 order by seq limit ?2"
            )
        }
    }
}

/// What is counted for one cursor.
#[derive(Clone, Copy)]
struct Count {
    /// `None` when the cursor is still among the existing rows.
    after: Option<i64>,
    changes: u64,
    oldest: Option<i64>,
}

/// The counts of all cursors.
struct Tally {
    partitions: u32,
    counts: Vec<Count>,
    /// The cursors of each partition.
    cursors_of: Vec<Vec<usize>>,
    packer: Packer,
}

impl Tally {
    fn new(settings: &Settings, cursors: &[Cursor]) -> Result<Self, Fault> {
        let mut cursors_of = vec![Vec::new(); settings.partitions.max(1) as usize];
        let mut counts = Vec::with_capacity(cursors.len());
        for (index, cursor) in cursors.iter().enumerate() {
            let after = match Place::parse(&cursor.after) {
                Some(Place::Live(number)) => Some(number as i64),
                Some(Place::Backfill(_)) => None,
                None => return Err(settings.names.not_a_position(&cursor.after).into()),
            };
            counts.push(Count { after, changes: 0, oldest: None });
            if let Some(cursors) = cursors_of.get_mut(cursor.partition.0 as usize) {
                cursors.push(index);
            }
        }
        Ok(Tally { partitions: settings.partitions, counts, cursors_of, packer: Packer::default() })
    }

    /// The place after which changes concern one of the cursors.
    fn first(&self) -> Option<i64> {
        self.counts.iter().filter_map(|count| count.after).min()
    }

    fn count(&mut self, watched: &Watched, row: &Stepped<'_>) {
        self.packer.clear();
        let whole = watched.whole_keys();
        (0..watched.key.len()).for_each(|index| row.pack_key(4 + index, whole, &mut self.packer));
        let partition = partition_of_hash(Key::hash_of(self.packer.since(0)), self.partitions);
        for index in &self.cursors_of[partition.0 as usize] {
            let count = &mut self.counts[*index];
            let Some(after) = count.after.filter(|after| *after < row.number(0)) else { continue };
            // A row of the log that this cursor has not seen at all waits since its first change, not since its last.
            let since = if row.number(2) > after { row.number(3) } else { row.number(1) };
            count.changes += 1;
            count.oldest = Some(count.oldest.map_or(since, |oldest| oldest.min(since)));
        }
    }

    fn lags(&self, now: i64, all_counted: bool) -> Vec<Lag> {
        let lag = |count: &Count| match (count.after, count.oldest) {
            (None, _) => UNKNOWN,
            (Some(_), None) if !all_counted => UNKNOWN,
            (Some(_), oldest) => Lag {
                changes: all_counted.then_some(count.changes),
                seconds: Some(oldest.map_or(0.0, |oldest| (now - oldest).max(0) as f64 / 1000.0)),
            },
        };
        self.counts.iter().map(lag).collect()
    }
}
