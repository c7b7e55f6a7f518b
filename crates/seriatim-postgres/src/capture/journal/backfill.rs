//! Existing rows first, without keeping changes waiting: both are read by turns.
//!
//! Every row's first appearance is the row as it was when the consumer registered (tick *r*), whoever comes first:
//! - a chunk of rows, in the order of what names them, as the newest tick *M* saw them. It leaves out every row that was
//!   changed between *r* and *M*; one that was changed or deleted after *M* is told as it was before.
//! - the first change of a row since *r* that no chunk has told of: the row as it was comes right before it. Up to *M* that
//!   holds for all rows after the chunk's beginning, since the chunk left them out; after *M*, for those after its end.
//!
//! So each row is told once as it was, and then every change of it, in order. The next chunk waits until the changes
//! have come to *M*.

pub(super) mod index;
mod relayed;

use std::pin::pin;

use deadpool_postgres::GenericClient;
use futures_util::TryStreamExt as _;
use postgres_types::ToSql;
use seriatim::source::{Limit, SourceError};
use xxhash_rust::xxh64::xxh64;

use super::super::error::Fault;
use super::super::errors::Names;
use super::super::kind::{Base, Writer};
use super::super::names::{literal, quoted};
use super::super::registry::Registration;
use super::super::row_filter::RowFilter;
use super::super::table::Table;
use super::emit::Emit;
use super::position::{Chunk, Filling, Group, Place, RowKey};
use super::raw::{Moment, Raw};
use super::rows::canonical;
use super::shapes::{Shapes, columns_now};
use super::watched::Watched;
use crate::database::Client;
use index::Turn;

const CHUNK: &str = include_str!("../../../queries/journal_chunk.sql");
const SNAPSHOT: &str = include_str!("../../../queries/tick_snapshot.sql");
const NEWEST: &str = include_str!("../../../queries/tick_newest.sql");
const ESTIMATE: &str = include_str!("../../../queries/table_estimate.sql");
const COUNT: &str = include_str!("../../../queries/table_count.sql");
const FRESH: &str = include_str!("../../../queries/journal_fresh.sql");
const LOCK: &str = include_str!("../../../queries/table_lock.sql");
const HIDES_ROWS: &str = include_str!("../../../queries/table_hides_rows.sql");

/// Tables that are estimated to be smaller are counted.
const COUNTED: i64 = 100_000;

/// How many rows one chunk has at most.
const ROWS: usize = 2000;

/// The id of a row that existed: the same whenever it is told, another for another registration, and no change's.
pub(super) fn id_of_existing(registration: i64, row: &[u8]) -> u64 {
    seriatim::change::EXISTING | (xxh64(row, registration as u64) >> 2)
}

/// Refuses a table that has rows which this role cannot see.
pub(super) async fn refuse_hidden(
    client: &impl GenericClient,
    table: &Table,
    names: &Names,
) -> Result<(), Fault> {
    let row = client.query_one(HIDES_ROWS, &[&table.oid]).await?;
    match row.get(0) {
        true => Err(names.rows_hidden(row.get(1)).into()),
        false => Ok(()),
    }
}

/// Refuses tables whose rows have no names or are hidden, and makes the index that finds a row's changes. It stays until the turn is dropped,
/// and after that for as long as a registered consumer needs it.
pub(super) async fn prepare(base: &Base, client: &Client, watched: &Watched) -> Result<Turn, Fault> {
    if watched.table.identity().is_none() {
        return Err(base.settings.names.no_row_identity().into());
    }
    refuse_hidden(client, &watched.table, &base.settings.names).await?;
    index::make(base, watched.entry.id).await
}

/// How many rows there are, roughly when they are many.
pub(super) async fn count(client: &impl GenericClient, watched: &Watched) -> Result<i64, Fault> {
    let estimate: i64 = client.query_one(ESTIMATE, &[&watched.table.oid]).await?.get(0);
    if estimate > COUNTED {
        return Ok(estimate);
    }
    let count = COUNT.replace("{table}", &watched.table.quoted());
    Ok(client.query_one(&count, &[]).await?.get(0))
}

/// The snapshot of a tick that must be there.
async fn snapshot(
    base: &Base,
    client: &Client,
    capture: i64,
    tick: i64,
    at: &Place,
) -> Result<String, Fault> {
    let statement = client.prepare_cached(&base.database.sql(SNAPSHOT)).await?;
    let row = client.query_opt(&statement, &[&capture, &tick]).await?;
    let gone = || base.settings.names.backfill_gone(&at.position());
    Ok(row.ok_or_else(gone)?.get(0))
}

/// Which changes need the row that they found before them.
pub(super) struct Fresh {
    pub registration: i64,
    /// The column that says so, for the queries of changes.
    pub sql: String,
    since: String,
    after: Option<RowKey>,
}

impl Fresh {
    pub(super) async fn new(
        base: &Base,
        client: &Client,
        watched: &Watched,
        registration: &Registration,
        place: &Place,
        filling: &Filling,
    ) -> Result<Self, Fault> {
        let since = snapshot(base, client, watched.entry.id, registration.since, place).await?;
        let after = match &filling.chunk {
            Some(chunk) => chunk.after.clone(),
            None => filling.key.clone(),
        };
        let rows = RowNames::of(watched);
        let sql = FRESH
            .replace("journal_N", &format!("journal_{}", watched.entry.id))
            .replace("{beyond}", &rows.beyond("j.before", "$9"))
            .replace("{same}", &rows.same("e", "j.before"));
        Ok(Fresh { registration: registration.id, sql: base.database.sql(&sql).into_owned(), since, after })
    }

    pub(super) fn parameters(&self) -> Vec<Box<dyn ToSql + Sync + Send>> {
        vec![Box::new(self.since.clone()), Box::new(self.after.clone())]
    }
}

/// What names rows, in SQL.
struct RowNames {
    columns: Vec<RowColumn>,
    /// The key's columns that do not name the row: with them, a row is told apart from itself under another key.
    others: Vec<(Vec<String>, u32)>,
}

struct RowColumn {
    names: Vec<String>,
    of: u32,
    type_name: String,
    collate: String,
}

impl RowNames {
    fn of(watched: &Watched) -> Self {
        let column = |(number, names): (i16, Vec<String>)| {
            let column = watched.table.column(number)?;
            let collate =
                column.collation.as_ref().map_or_else(String::new, |name| format!(" collate {name}"));
            Some(RowColumn { names, of: column.base, type_name: column.base_name.clone(), collate })
        };
        let identity = watched.row_names();
        let key = watched.entry.key.iter().zip(&watched.known.key_names).zip(&watched.known.key_types);
        let named = |number: &i16| identity.iter().any(|(named, _)| named == number);
        let others =
            key.filter(|((number, _), _)| !named(number)).map(|((_, names), of)| (names.clone(), *of));
        let others = others.collect();
        RowNames { columns: identity.iter().cloned().filter_map(column).collect(), others }
    }

    /// The columns of an image, with their types.
    fn typed(&self, image: &str) -> String {
        let each = |column: &RowColumn| {
            format!("({})::{}{}", text(image, &column.names), column.type_name, column.collate)
        };
        self.columns.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// The parts of a parameter, with their types.
    fn parts(&self, parameter: &str) -> String {
        let each = |(at, column): (usize, &RowColumn)| {
            format!("({parameter}::text[])[{}]::{}{}", at + 1, column.type_name, column.collate)
        };
        self.columns.iter().enumerate().map(each).collect::<Vec<_>>().join(", ")
    }

    /// The row of an image comes after the one that a parameter names.
    fn beyond(&self, image: &str, parameter: &str) -> String {
        format!("({}) > ({})", self.typed(image), self.parts(parameter))
    }

    /// A row of the journal is about the row of an image.
    fn same(&self, noted: &str, image: &str) -> String {
        let columns = self.columns.iter().map(|column| (&column.names, column.of));
        let all: Vec<_> = columns.chain(self.others.iter().map(|(names, of)| (names, *of))).collect();
        let is = |side: &str| {
            let each = all.iter().map(|(names, of)| {
                let value = |image: &str| canonical(&format!("({})", text(image, names)), *of);
                format!("{} is not distinct from {}", value(side), value(image))
            });
            each.collect::<Vec<_>>().join(" and ")
        };
        let (before, after) = (format!("{noted}.before"), format!("{noted}.after"));
        format!("({before} is not null and {} or {after} is not null and {})", is(&before), is(&after))
    }
}

/// A column of an image, by the newest of its names that is there.
fn text(image: &str, names: &[String]) -> String {
    let each = names.iter().map(|name| format!("{image} ->> {}", literal(name)));
    format!("coalesce({}, null)", each.collect::<Vec<_>>().join(", "))
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
    if watched.entry.writer == Writer::Relay {
        return relayed::read(base, client, (watched, shapes), registration, group, limit, emit).await;
    }
    let Some(filling) = &group.at.filling else { return Ok(group.at.clone()) };
    let since = snapshot(base, client, watched.entry.id, registration.since, &group.at).await?;
    let sql = chunk_sql(base, watched)?;
    let rows = limit.rows.clamp(1, ROWS) as i64;
    let upper = group.ahead.as_ref().map(|(_, key)| key.clone());
    // One snapshot for the newest tick, the rows, and what happened to them since. The table is locked before the snapshot is
    // taken: to an older one a table that is rewritten is empty.
    let transaction = client.build_transaction();
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    let transaction = transaction.isolation_level(level).read_only(true).start().await?;
    transaction.batch_execute(&LOCK.replace("{table}", &watched.table.quoted())).await?;
    refuse_hidden(&transaction, &watched.table, &base.settings.names).await?;
    if columns_now(&transaction, watched.table.oid).await? != shapes.columns {
        emit.images.puzzle();
    }
    let newest = transaction.query_one(&*base.database.sql(NEWEST), &[&watched.entry.id]).await?;
    let (tick, seen): (i64, String) = (newest.get(0), newest.get(1));
    let at = newest.get::<_, Moment>(2).0;
    let statement = transaction.prepare_cached(&sql).await?;
    let parameters: [&(dyn ToSql + Sync); 5] = [&filling.key, &upper, &rows, &since, &seen];
    let found = transaction.query_raw(&statement, parameters).await?;
    let mut place = group.at.clone();
    let chunk = Chunk { at: tick, after: filling.key.clone() };
    let mut looked_at = 0;
    let mut full = false;
    {
        let mut found = pin!(found);
        while let Some(row) = found.try_next().await? {
            let key: RowKey = row.get(0);
            let in_table: bool = row.get(1);
            looked_at += i64::from(in_table);
            let done = filling.done + looked_at as u64;
            let chunk = Some(chunk.clone());
            let reached = Filling { registration: registration.id, done, key: Some(key), chunk };
            place = Place { live: group.at.live, filling: Some(reached) };
            if let Some(image) = row.get::<_, Option<Raw<'_>>>(3) {
                let unreadable = |_| base.settings.names.unreadable("a row of the table");
                let id = |row: &[u8]| id_of_existing(registration.id, row);
                let image = (image.0, row.get::<_, Option<i64>>(4).unwrap_or(i64::MAX));
                emit.existing(row.get(2), image, at, place.position(), id).map_err(unreadable)?;
            }
            if emit.slices.full() {
                full = true;
                break;
            }
        }
    }
    transaction.commit().await?;
    if !full && looked_at < rows {
        let (done, key) = match &group.ahead {
            Some((done, key)) => (*done, key.clone()),
            None => (filling.done + looked_at as u64, RowKey::new()),
        };
        let reached = Filling { registration: registration.id, done, key: Some(key), chunk: Some(chunk) };
        place = Place { live: group.at.live, filling: Some(reached) };
    }
    Ok(place.settled())
}

fn chunk_sql(base: &Base, watched: &Watched) -> Result<String, SourceError> {
    let sql = base.database.sql(&page_sql(CHUNK, watched)).into_owned();
    Ok(match RowFilter::new(base.settings.filter.as_deref(), &watched.table, &base.settings.names)? {
        Some(sieve) => sql.replace(
            "in_table, hash, image, noted from (",
            &format!("in_table, hash, {}, noted from (", sieve.image("r.image")),
        ),
        None => sql,
    })
}

/// A statement that reads rows of the table in the order of what names them.
fn page_sql(template: &str, watched: &Watched) -> String {
    let rows = RowNames::of(watched);
    let journal = watched.sql();
    let columns = watched.table.identity().unwrap_or_default();
    let columns: Vec<String> = columns
        .iter()
        .filter_map(|number| watched.table.column(*number))
        .map(|column| format!("t.{}", quoted(&column.name)))
        .collect();
    let numbered =
        |order: &str| (0..columns.len()).map(|at| format!("c{at}{order}")).collect::<Vec<_>>().join(", ");
    let page: Vec<String> =
        columns.iter().enumerate().map(|(at, column)| format!("{column} as c{at}")).collect();
    let typed: Vec<String> = rows
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            format!("({})::{}{} as c{at}", text("j.before", &column.names), column.type_name, column.collate)
        })
        .collect();
    let texts = (0..columns.len()).map(|at| format!("c{at}::text")).collect::<Vec<_>>().join(", ");
    template
        .replace("journal_N", &format!("journal_{}", watched.entry.id))
        .replace("{table}", &watched.table.quoted())
        .replace("{image}", &watched.table.image("t.*"))
        .replace("{page_columns}", &page.join(", "))
        .replace("{row_columns}", &columns.join(", "))
        .replace("{gone_columns}", &typed.join(", "))
        .replace("{columns}", &numbered(""))
        .replace("{columns_down}", &numbered(" desc"))
        .replace("{texts}", &texts)
        .replace("{after}", &rows.parts("$1"))
        .replace("{upper}", &rows.parts("$2"))
        .replace("{gone_values}", &rows.typed("j.before"))
        .replace("{hash}", &journal.hash("p.image"))
        .replace("{same_as_page}", &rows.same("e", "p.image"))
        .replace("{same_as_gone}", &rows.same("e", "j.before"))
}
