//! What the books say about a feed, whichever store its checkpoints are in.

use rusqlite::{Connection, Row};
use seriatim::change::Position;
use seriatim::name::{FeedName, StoreId};
use seriatim::source::{Consumer, Registered, Watching};

use super::registry::exists;
use super::settings::Settings;
use super::slices::time;

const LIST: &str = include_str!("../../queries/consumer_list.sql");
const ALL: &str = include_str!("../../queries/consumer_all.sql");

/// The consumer of these names; `None` where nobody can have them.
pub(super) fn consumer(feed: &str, store: &str) -> Option<Consumer> {
    Some(Consumer { feed: FeedName::new(feed).ok()?, store: StoreId::new(store).ok()? })
}

/// All consumers, of all feeds and stores.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Watching>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(ALL)?;
    let found = statement.query_map([], |row| {
        let (feed, store): (String, String) = (row.get(0)?, row.get(1)?);
        let (capture, table, seen_at) = (row.get(2)?, row.get(3)?, time(row.get(4)?));
        Ok(consumer(&feed, &store).map(|consumer| Watching { consumer, capture, table, seen_at }))
    })?;
    found.filter_map(Result::transpose).collect()
}

/// The consumers of this feed, one for each store.
pub(super) fn registered(connection: &Connection, settings: &Settings) -> rusqlite::Result<Vec<Registered>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let names = &settings.names;
    let mut statement = connection.prepare_cached(LIST)?;
    let found =
        statement.query_map((names.feed.as_str(), settings.kind.as_str(), &names.table), registered_of)?;
    found.filter_map(Result::transpose).collect()
}

/// A consumer; `None` when its store has a name that none has.
fn registered_of(row: &Row<'_>) -> rusqlite::Result<Option<Registered>> {
    let (store, start): (String, String) = (row.get(0)?, row.get(1)?);
    let (snapshot, consumed, shown): (i64, i64, Option<i64>) = (row.get(2)?, row.get(3)?, row.get(4)?);
    // Existing rows come before all numbers: while they are read, only the snapshot is known.
    let began = Position::text(&start).as_number().map_or(snapshot, |number| number as i64);
    let reads_rows = Position::text(&start).as_number().is_none() && consumed <= snapshot;
    let Ok(store) = StoreId::new(&store) else { return Ok(None) };
    Ok(Some(Registered {
        store,
        begun: consumed != began || shown.is_some_and(|shown| shown > began),
        upto: (!reads_rows).then(|| Position::number(consumed.max(0) as u64)),
        seen_at: time(row.get(5)?),
    }))
}
