//! How far behind the partitions are, and who holds them back.

use seriatim::source::{Blocker, Cursor, Lag};

use super::super::error::Fault;
use super::super::kind::Base;
use super::super::registry;
use super::position::Place;
use super::watched::Watched;
use crate::database::Client;

const LAG: &str = include_str!("../../../queries/journal_lag.sql");
const WRITERS: &str = include_str!("../../../queries/journal_writers.sql");
const STALE: &str = include_str!("../../../queries/consumer_stale.sql");

/// Beyond this many changes, counting costs more than the number is worth.
const MOST_COUNTED: i64 = 100_000;

const UNKNOWN: Lag = Lag { changes: None, seconds: None };

/// The lag of each cursor.
pub(super) async fn lag(
    base: &Base,
    client: &Client,
    watched: &Watched,
    cursors: &[Cursor],
) -> Result<Vec<Lag>, Fault> {
    let template = LAG.replace("journal_N", &format!("journal_{}", watched.entry.id));
    let statement = client.prepare_cached(&base.database.sql(&template)).await?;
    let partitions = base.settings.partitions as i32;
    let mut lags = Vec::with_capacity(cursors.len());
    for cursor in cursors {
        let unknown = || base.settings.names.not_a_position(&cursor.after);
        let place = Place::parse(&cursor.after).ok_or_else(unknown)?.settled();
        let (to, id) = place.live.inside.map_or((None, 0), |inside| (Some(inside.to), inside.id));
        let partition = cursor.partition.0 as i32;
        let row = client
            .query_opt(
                &statement,
                &[&watched.entry.id, &place.live.from, &to, &id, &partitions, &partition, &MOST_COUNTED],
            )
            .await?;
        lags.push(match row {
            Some(row) if place.filling.is_none() => {
                let (changes, seconds): (i64, Option<f64>) = (row.get(0), row.get(1));
                let all = changes < MOST_COUNTED;
                Lag {
                    changes: all.then_some(changes.max(0) as u64),
                    seconds: seconds.or(all.then_some(0.0)).map(|seconds| seconds.max(0.0)),
                }
            }
            _ => UNKNOWN,
        });
    }
    Ok(lags)
}

/// Transactions that have written and stay open, and consumers that nobody has heard of.
pub(super) async fn blockers(base: &Base, client: &Client, watched: &Watched) -> Result<Vec<Blocker>, Fault> {
    let prefix = format!("journal_{}_", watched.entry.id);
    let schema = base.database.schema().as_str();
    let mut blockers = Vec::new();
    for row in client.query(WRITERS, &[&schema, &prefix]).await? {
        blockers.push(Blocker { what: row.get(0), remedy: row.get(1), ..Blocker::default() });
    }
    if let Some(fault) = watched.stopped() {
        let remedy = format!(
            "run `seriatim watch {0}`, then `seriatim rewind {0} --to beginning`",
            base.settings.names.feed
        );
        blockers.push(Blocker { what: fault.to_owned(), remedy, ..Blocker::default() });
    }
    for row in client.query(&*base.database.sql(STALE), &[&watched.entry.id]).await? {
        let (feed, store, ago): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        blockers.push(Blocker {
            what: format!(
                "feed {feed} of store {store} was last seen {ago} ago and keeps changes from being pruned"
            ),
            remedy: format!(
                "go on with `seriatim run {feed}`, or `seriatim unwatch {feed} --store {store}` if it is not needed any more"
            ),
            of: registry::consumer(&feed, &store),
            ..Blocker::default()
        });
    }
    Ok(blockers)
}
