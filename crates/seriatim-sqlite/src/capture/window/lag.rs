//! How far behind a window is, and what holds it back.

use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use seriatim::backend::Packer;
use seriatim::order::partition_of_hash;
use seriatim::source::{Blocker, Cursor, Lag};
use seriatim::value::Key;

use super::super::error::Fault;
use super::super::slices::Stepped;
use super::super::sql::quoted;
use super::horizon::{self, Asked};
use super::moment::moment;
use super::pass::Pass;
use super::place::WindowPosition;
use super::relation::{Read, Relation};
use super::settings::{Horizon, Settings, spelling};

/// Beyond this many rows, counting costs more than the number is worth.
const MOST_COUNTED: usize = 2_000_000;

/// A transaction that holds the file for so long is worth a word.
const LONG: Duration = Duration::from_secs(1);

/// The lag of each cursor: the rows after it, the young ones too.
pub(super) fn lag(
    connection: &Connection,
    settings: &Settings,
    relation: &Relation,
    cursors: &[Cursor],
) -> Result<Vec<Lag>, Fault> {
    let now = horizon::present(connection)?;
    let (finish, stale_before) = (Timestamp::MAX, Timestamp::MIN);
    let pass = Pass { connection, settings, relation, sieve: None, finish, stale_before, until: None };
    let lag = |cursor: &Cursor| {
        let foreign = || settings.names.not_a_position(&cursor.after);
        let place = WindowPosition::parse(&cursor.after, spelling(settings)).ok_or_else(foreign)?.place;
        let (mut behind, mut looked_at, mut oldest) = (0, 0, None);
        pass.step(&place, Read::Keys, MOST_COUNTED, |row| {
            looked_at += 1;
            // A moment that is none will be told by the next read.
            let at = moment(row.raw(0), settings.unit).ok().filter(|at| *at >= place.at());
            if at.is_some() && is_of(row, relation, settings, cursor) {
                behind += 1;
                oldest = oldest.or(at);
            }
            Ok(ControlFlow::<()>::Continue(()))
        })?;
        let all_counted = looked_at < MOST_COUNTED;
        let age = |at: Timestamp| now.duration_since(at).as_secs_f64().max(0.0);
        let seconds = oldest.map(age).or(all_counted.then_some(0.0));
        Ok(Lag { changes: all_counted.then_some(behind), seconds })
    };
    cursors.iter().map(lag).collect()
}

fn is_of(row: &Stepped<'_>, relation: &Relation, settings: &Settings, cursor: &Cursor) -> bool {
    let mut packer = Packer::default();
    (0..relation.key.len()).for_each(|index| row.pack(1 + index, &mut packer));
    partition_of_hash(Key::hash_of(packer.since(0)), settings.partitions) == cursor.partition
}

/// A transaction that is open for long, and rows that are ahead of their time.
pub(super) fn blockers(
    connection: &Connection,
    settings: &Settings,
    relation: &Relation,
) -> Result<Vec<Blocker>, Fault> {
    let mut blockers = Vec::new();
    let names = &settings.names;
    if settings.horizon == Horizon::Exact && horizon::exact(connection, LONG)? == Asked::Busy {
        blockers.push(Blocker {
            what: format!(
                "a write transaction has been open in {} for more than {LONG:?}: feed {} waits for what it will commit",
                names.home, names.feed
            ),
            remedy: "find the process that holds it (`fuser` or `lsof` name those that have the file open) and have it \
                     commit or roll back"
                .to_owned(),
            ..Blocker::default()
        });
    }
    if let Some((at, now)) = ahead_of_time(connection, settings, relation)? {
        blockers.push(Blocker {
            what: format!(
                "feed {}: {} has rows that change only in the future, up to {at}; now is {now}",
                names.feed,
                settings.whence()
            ),
            remedy:
                "they are delivered when that moment has come; correct them, or the clock that wrote them"
                    .to_owned(),
            ..Blocker::default()
        });
    }
    Ok(blockers)
}

/// The latest moment of all rows, when it is further ahead than the buffer could explain.
fn ahead_of_time(
    connection: &Connection,
    settings: &Settings,
    relation: &Relation,
) -> Result<Option<(Timestamp, Timestamp)>, Fault> {
    let sql = format!("select max({}) from {}", quoted(&settings.changed_at), relation.from());
    let now = horizon::present(connection)?;
    let tolerated =
        jiff::SignedDuration::try_from(settings.rules.buffer).unwrap_or(jiff::SignedDuration::MAX);
    let latest = connection
        .prepare_cached(&sql)?
        .query_row([], |row| Ok(row.get_ref(0).ok().and_then(|raw| moment(raw, settings.unit).ok())))?;
    Ok(latest.filter(|at| at.duration_since(now) > tolerated).map(|at| (at, now)))
}
