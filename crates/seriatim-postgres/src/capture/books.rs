//! What the books say about a feed, whichever store its checkpoints are in.

use seriatim::change::Position;
use seriatim::name::StoreId;
use seriatim::source::{Registered, Watching};
use tokio_postgres::Row;

use super::error::Fault;
use super::kind::Base;
use super::{registry, table};
use crate::database::Database;

const LIST: &str = include_str!("../../queries/consumer_list.sql");
const ALL: &str = include_str!("../../queries/consumer_all.sql");

/// All consumers, of all feeds and stores.
pub(super) async fn all(database: &Database) -> Result<Vec<Watching>, Fault> {
    let client = database.client().await?;
    if !registry::exists(&client, database).await? {
        return Ok(Vec::new());
    }
    let found = client.query(&*database.sql(ALL), &[]).await?;
    let watching = |row: &Row| {
        let consumer = registry::consumer(row.get(0), row.get(1))?;
        let (capture, table, seen_at) = (row.get(2), row.get(3), registry::time(row.get(4)));
        Some(Watching { consumer, capture, table, seen_at })
    };
    Ok(found.iter().filter_map(watching).collect())
}

/// The consumers of this feed, one for each store.
pub(super) async fn registered(base: &Base) -> Result<Vec<Registered>, Fault> {
    let client = base.database.client().await?;
    if !registry::exists(&client, &base.database).await? {
        return Ok(Vec::new());
    }
    let names = &base.settings.names;
    let Some(table) = table::find(&client, names).await? else { return Ok(Vec::new()) };
    let (feed, kind) = (names.feed.as_str(), base.settings.kind.as_str());
    let found = client.query(&*base.database.sql(LIST), &[&feed, &kind, &table]).await?;
    Ok(found.iter().filter_map(registered_of).collect())
}

/// A consumer; `None` when its store has a name that none has.
fn registered_of(row: &Row) -> Option<Registered> {
    let (start, since, consumed): (String, i64, i64) = (row.get(1), row.get(2), row.get(3));
    Some(Registered {
        store: StoreId::new(row.get(0)).ok()?,
        begun: consumed != since,
        upto: handled_upto(&start, since, consumed),
        seen_at: registry::time(row.get(4)),
    })
}

/// The position up to which a consumer that began at `start` has handled everything.
fn handled_upto(start: &str, since: i64, consumed: i64) -> Option<Position> {
    // A log numbers existing rows like changes, and only those are told of them who say that they want them.
    if let Some((wants_rows, _)) = start.strip_prefix("r:").and_then(|rest| rest.split_once(':')) {
        return Some(Position::text(&format!("r:{wants_rows}:{consumed}")));
    }
    // A journal's existing rows are read beside its ticks: while they are, no tick says how far that is.
    let reads_rows = start.contains('+') && consumed <= since;
    (!reads_rows).then(|| Position::number(consumed.max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upto(start: &str, since: i64, consumed: i64) -> Option<String> {
        handled_upto(start, since, consumed).map(|position| position.to_string())
    }

    #[test]
    fn a_consumer_goes_on_after_what_it_handled() {
        assert_eq!(upto("7", 7, 7).as_deref(), Some("7"));
        assert_eq!(upto("7", 7, 9).as_deref(), Some("9"));
        assert_eq!(upto("7-9:42", 7, 12).as_deref(), Some("12"));
    }

    #[test]
    fn existing_rows_that_were_not_read_are_not_passed_over() {
        assert_eq!(upto("7+[3,0,null,null]", 7, 7), None);
        assert_eq!(upto("7+[3,0,null,null]", 7, 8).as_deref(), Some("8"));
        assert_eq!(upto("r:2:0", 0, 40).as_deref(), Some("r:2:40"));
    }
}
