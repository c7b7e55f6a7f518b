//! Existing rows of a table whose changes come by the relay, and so later than they are committed.
//!
//! A chunk is read from the table first. Then the relay is waited for: when it has passed the place where the log was then, everything
//! that the chunk has seen is in the journal, up to a tick *M* that is made then.
//! - Where changes have the row as it was, a chunk leaves out every row of which something was noted between the registration and *M*:
//!   its first change tells the row as it was. So all is as with triggers.
//! - Where they have not, a chunk leaves out only rows that were inserted since the registration: they come as inserts. All others are
//!   told as the chunk found them, which may be later than a change that follows, and never earlier than one that came before.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use postgres_types::ToSql;
use seriatim::source::{Limit, SourceError};

use super::super::super::error::Fault;
use super::super::super::kind::Base;
use super::super::super::registry::Registration;
use super::super::super::row_filter::RowFilter;
use super::super::super::wal::sync;
use super::super::emit::Emit;
use super::super::position::{Chunk, Filling, Group, Place, RowKey};
use super::super::raw::Moment;
use super::super::shapes::{Shapes, columns_now};
use super::super::watched::Watched;
use super::{LOCK, NEWEST, ROWS, RowNames, id_of_existing, page_sql, refuse_hidden, snapshot};
use crate::database::Client;

const PAGE: &str = include_str!("../../../../queries/journal_page.sql");
const UNTOUCHED: &str = include_str!("../../../../queries/journal_page_untouched.sql");
const TICK_NOW: &str = include_str!("../../../../queries/journal_tick_now.sql");

/// How long a chunk waits for the relay.
const PATIENCE: Duration = Duration::from_secs(5);

/// Rows of the table as they were found.
#[derive(Default)]
struct Page {
    names: Vec<RowKey>,
    hashes: Vec<i32>,
    images: Vec<String>,
    /// What the filter leaves of them.
    sifted: Vec<Option<String>>,
    /// There are more, perhaps.
    full: bool,
}

/// Reads the next chunk and returns where that leaves the group.
pub(super) async fn read(
    base: &Base,
    client: &mut Client,
    (watched, shapes): (&Watched, &Shapes),
    registration: &Registration,
    group: &Group,
    limit: Limit,
    emit: &mut Emit<'_>,
) -> Result<Place, Fault> {
    let Some(filling) = &group.at.filling else { return Ok(group.at.clone()) };
    let since = snapshot(base, client, watched.entry.id, registration.since, &group.at).await?;
    let page = Page::read(base, client, watched, group, limit).await?;
    if columns_now(&*client, watched.table.oid).await? != shapes.columns {
        emit.images.puzzle();
    }
    if !sync::reached(base, client, PATIENCE, true).await? {
        let doing = format!("feed {}: reading existing rows", base.settings.names.feed);
        return Err(SourceError::unavailable(
            doing,
            "the relay has not come to the end of the server's log yet",
        )
        .into());
    }
    client.query_one(&*base.database.sql(TICK_NOW), &[&watched.entry.id]).await?;
    let newest = client.query_one(&*base.database.sql(NEWEST), &[&watched.entry.id]).await?;
    let (tick, seen, at): (i64, String, _) = (newest.get(0), newest.get(1), newest.get::<_, Moment>(2).0);
    let untouched = page.untouched(base, client, watched, &since, &seen).await?;
    let chunk = Chunk { at: tick, after: filling.key.clone() };
    let mut place = group.at.clone();
    for (index, name) in page.names.iter().enumerate() {
        let done = filling.done + index as u64 + 1;
        let reached = Filling {
            registration: registration.id,
            done,
            key: Some(name.clone()),
            chunk: Some(chunk.clone()),
        };
        place = Place { live: group.at.live, filling: Some(reached) };
        if let (true, Some(image)) = (untouched.contains(&(index as i64 + 1)), &page.sifted[index]) {
            let unreadable = |_| base.settings.names.unreadable("a row of the table");
            let id = |row: &[u8]| id_of_existing(registration.id, row);
            emit.existing(page.hashes[index], (image, i64::MAX), at, place.position(), id)
                .map_err(unreadable)?;
        }
    }
    if !page.full {
        let (done, key) = match &group.ahead {
            Some((done, key)) => (*done, key.clone()),
            None => (filling.done + page.names.len() as u64, RowKey::new()),
        };
        let reached = Filling { registration: registration.id, done, key: Some(key), chunk: Some(chunk) };
        place = Place { live: group.at.live, filling: Some(reached) };
    }
    Ok(place.settled())
}

impl Page {
    async fn read(
        base: &Base,
        client: &mut Client,
        watched: &Watched,
        group: &Group,
        limit: Limit,
    ) -> Result<Self, Fault> {
        let names = &base.settings.names;
        let sieve = RowFilter::new(base.settings.filter.as_deref(), &watched.table, names)?;
        let sifted = sieve.map_or_else(|| "p.image".to_owned(), |sieve| sieve.image("p.image"));
        let sql = base.database.sql(&page_sql(PAGE, watched)).replace("{sifted}", &sifted);
        let rows = limit.rows.clamp(1, ROWS) as i64;
        let upper = group.ahead.as_ref().map(|(_, key)| key.clone());
        let after = group.at.filling.as_ref().and_then(|filling| filling.key.clone());
        // The table is locked before the snapshot is taken: to an older one a table that is rewritten is empty.
        let transaction = client.transaction().await?;
        transaction.batch_execute(&LOCK.replace("{table}", &watched.table.quoted())).await?;
        refuse_hidden(&transaction, &watched.table, names).await?;
        let statement = transaction.prepare_cached(&sql).await?;
        let parameters: [&(dyn ToSql + Sync); 3] = [&after, &upper, &rows];
        let (mut page, mut bytes) = (Page::default(), 0);
        {
            let mut found = pin!(transaction.query_raw(&statement, parameters).await?);
            while let Some(row) = found.try_next().await? {
                let image: String = row.get(2);
                bytes += image.len();
                page.names.push(row.get(0));
                page.hashes.push(row.get(1));
                page.images.push(image);
                page.sifted.push(row.get(3));
                if bytes >= limit.bytes {
                    break;
                }
            }
        }
        transaction.commit().await?;
        page.full = page.names.len() as i64 >= rows || bytes >= limit.bytes;
        Ok(page)
    }

    /// The places, from 1 on, of the rows that are to be told of.
    async fn untouched(
        &self,
        base: &Base,
        client: &Client,
        watched: &Watched,
        since: &str,
        seen: &str,
    ) -> Result<Vec<i64>, Fault> {
        let counts = if watched.has_rows_as_they_were() { "true" } else { "e.op = 'i'" };
        let sql = UNTOUCHED
            .replace("journal_N", &format!("journal_{}", watched.entry.id))
            .replace("{counts}", counts)
            .replace("{same_as_page}", &RowNames::of(watched).same("e", "p.image"));
        let statement = client.prepare_cached(&base.database.sql(&sql)).await?;
        let rows = client.query(&statement, &[&self.hashes, &self.images, &since, &seen]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
