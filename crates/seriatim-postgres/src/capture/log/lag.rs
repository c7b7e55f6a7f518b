//! How far behind the partitions are, and what holds a log up.

use seriatim::backend::Packer;
use seriatim::name::Partition;
use seriatim::source::{Blocker, Consumer, Cursor, Lag};
use tokio_postgres::IsolationLevel;

use super::Log;
use super::books::{head, place};
use super::place::{Place, Rows};
use super::read::hash_of;
use crate::capture::error::Fault;
use crate::capture::kind::Base;
use crate::capture::registry;

const WAITING: &str = include_str!("../../../queries/log_waiting.sql");
const HOLDER: &str = include_str!("../../../queries/log_holder.sql");
const STALE: &str = include_str!("../../../queries/log_stale.sql");

/// Beyond this many changes, counting costs more than the number is worth.
const MOST_COUNTED: i64 = 200_000;

/// What is counted for one cursor.
struct Count {
    partition: Partition,
    after: Place,
    changes: u64,
    oldest: Option<i64>,
}

/// The lag of each cursor, by one pass over the places after the first of them.
pub(super) async fn lag(log: &Log, base: &Base, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault> {
    let count = |cursor: &Cursor| {
        place(base, &cursor.after).map(|after| Count {
            partition: cursor.partition,
            after,
            changes: 0,
            oldest: None,
        })
    };
    let mut counts: Vec<Count> = cursors.iter().map(count).collect::<Result<_, _>>()?;
    let Some(first) = counts.iter().map(|count| count.after.number).min() else { return Ok(Vec::new()) };
    let mut client = base.database.client().await?;
    let (_, state, watched) = log.watched(&client, base).await?;
    // One snapshot for both: what gets its number in between would be counted twice.
    let isolated = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let client = isolated.start().await?;
    let sql = base.database.sql(WAITING).replace("LOG", &state.name);
    let row = client.query_one(&sql, &[]).await?;
    let (waiting, now): (i64, i64) = (row.get(0), row.get(1));
    let statement = client.prepare_cached(&watched.places).await?;
    let rows = client.query(&statement, &[&first, &MOST_COUNTED]).await?;
    let mut images = watched.images(&state);
    for row in &rows {
        let (number, at, listed, json): (i64, i64, bool, &str) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let (mut packer, mut key) = (Packer::default(), Packer::default());
        let Some(image) = images.pack(json, &mut packer) else { continue };
        if images.pack_key(&image, &packer, &mut key).is_none() {
            continue;
        }
        let partition = hash_of(key.since(0)) as u32 % base.settings.partitions;
        let concerned = |count: &&mut Count| {
            count.partition.0 == partition
                && count.after.number < number
                && (!listed || count.after.rows != Rows::PassedOver)
        };
        for count in counts.iter_mut().filter(concerned) {
            count.changes += 1;
            count.oldest = Some(count.oldest.map_or(at, |oldest: i64| oldest.min(at)));
        }
    }
    let all = (rows.len() as i64) < MOST_COUNTED;
    // What has no number yet may be anybody's, and rows that are not listed yet are nobody's so far.
    let share = (waiting as u64).div_ceil(u64::from(base.settings.partitions.max(1)));
    let lag = |count: &Count| {
        let known = all && !(state.listing && count.after.rows != Rows::PassedOver);
        let seconds = count.oldest.map(|oldest| (now - oldest).max(0) as f64 / 1e6);
        let seconds = if waiting > 0 || !known { seconds } else { Some(seconds.unwrap_or(0.0)) };
        Lag { changes: known.then_some(count.changes + share), seconds }
    };
    Ok(counts.iter().map(lag).collect())
}

/// The consumer that has this name in a log.
fn consumer_of(name: &str) -> Option<Consumer> {
    let (feed, store) = name.split_once('@')?;
    registry::consumer(feed, store)
}

/// Who gives numbers and does not come to an end, and who keeps places of busy and deleted rows.
pub(super) async fn blockers(log: &Log, base: &Base) -> Result<Vec<Blocker>, Fault> {
    let client = base.database.client().await?;
    let (oid, state, _) = log.watched(&client, base).await?;
    let mut blockers = Vec::new();
    for row in client.query(&*base.database.sql(HOLDER), &[&state.id]).await? {
        let (pid, user, application, age): (i32, String, String, f64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        blockers.push(Blocker {
            what: format!(
                "process {pid} ({user}, {application}) has been sequencing the log {} for {age:.0} s without a commit",
                state.name
            ),
            remedy: format!("let it commit, or end it with `select pg_terminate_backend({pid})`"),
            ..Blocker::default()
        });
    }
    let head = head(&client, base, oid).await?;
    for row in client.query(&*base.database.sql(STALE), &[&state.id, &head]).await? {
        let (name, age): (String, f64) = (row.get(0), row.get(1));
        let feed = name.split('@').next().unwrap_or_default().to_owned();
        blockers.push(Blocker {
            what: format!("consumer {name} was last seen {age:.0} s ago: deleted rows that it has not seen are kept for it"),
            remedy: format!("go on with `seriatim run {feed}`, or `seriatim unwatch {feed}` if it is not needed any more"),
            of: consumer_of(&name),
            ..Blocker::default()
        });
    }
    Ok(blockers)
}
