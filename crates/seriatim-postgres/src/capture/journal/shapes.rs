//! Keeps the shapes of a journal's table in the source's own books.

use deadpool_postgres::GenericClient;

use super::super::error::Fault;
use super::super::kind::{Base, Writer};
use super::super::shapes::{Shape, Typed, altered, steps};
use super::super::table::Table;
use super::watched::Watched;
use crate::database::Client;

const EXISTS: &str = include_str!("../../../queries/relation_exists.sql");
const READ: &str = include_str!("../../../queries/shape_read.sql");
const NOTE: &str = include_str!("../../../queries/shape_note.sql");
const ALTERED: &str = include_str!("../../../queries/shape_altered.sql");
const COLUMNS_NOW: &str = include_str!("../../../queries/table_columns_now.sql");

/// The shapes of a table, oldest first, and what it looked like when they were read.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    pub shapes: Vec<Shape>,
    /// The capture and the [`Watched::fingerprint`] that they belong to.
    capture: i64,
    fingerprint: String,
    /// Another one means that a column was altered since.
    pub columns: String,
}

impl Shapes {
    /// Whether they are those of a table as it was when it was looked at.
    pub(super) fn is_of(&self, watched: &Watched) -> bool {
        self.capture == watched.entry.id && self.fingerprint == watched.fingerprint
    }
}

/// What the columns of a table are now, in short: another text when one was altered.
pub(super) async fn columns_now(client: &impl GenericClient, table: u32) -> Result<String, Fault> {
    let row = client.query_one(COLUMNS_NOW, &[&table]).await?;
    Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
}

/// The shapes of a table, with the one that it has now: that is noted if it is new.
pub(super) async fn of(base: &Base, client: &Client, watched: &Watched) -> Result<Shapes, Fault> {
    let capture = watched.entry.id;
    let (names, fingerprint) = (&base.settings.names, watched.fingerprint.clone());
    // Before the columns are read: if they are altered in between, that is noticed.
    let columns = columns_now(client, watched.table.oid).await?;
    let now = Table::read(client, watched.table.oid, names).await?.ok_or_else(|| names.table_gone())?;
    let now = Typed::all(&now);
    let table = format!("{}.shape", base.database.schema());
    if !client.query_one(EXISTS, &[&table]).await?.get::<_, bool>(0) {
        // Made by an older version, and not opened by this one yet.
        return Ok(Shapes { shapes: vec![Shape { since: 0, columns: now }], capture, fingerprint, columns });
    }
    let mut shapes = read(base, client, capture).await?;
    if watched.entry.writer == Writer::Relay {
        // The relay notes them.
        // Rows that are read from the table itself have its columns of now.
        shapes.push(Shape { since: i64::MAX - 1, columns: now });
        return Ok(Shapes { shapes, capture, fingerprint, columns });
    }
    let new = match shapes.last() {
        None => vec![Shape { since: 0, columns: now }],
        Some(last) if last.columns == now => Vec::new(),
        Some(last) => {
            let numbers = altered(&last.columns, &now);
            steps(&last.columns, &now, since(base, client, watched, &numbers).await?)
        }
    };
    note(base, client, capture, shapes.len(), &new).await?;
    shapes.extend(new);
    Ok(Shapes { shapes, capture, fingerprint, columns })
}

async fn read(base: &Base, client: &Client, capture: i64) -> Result<Vec<Shape>, Fault> {
    let unreadable = |_| base.settings.names.unreadable("the table shape");
    let rows = client.query(&*base.database.sql(READ), &[&capture]).await?;
    let shape = |row: &tokio_postgres::Row| {
        let columns = serde_json::from_str(row.get(1)).map_err(unreadable)?;
        Ok(Shape { since: row.get(0), columns })
    };
    rows.iter().map(shape).collect()
}

/// The id after which each of these columns was altered last.
async fn since(
    base: &Base,
    client: &Client,
    watched: &Watched,
    numbers: &[i16],
) -> Result<Vec<(i64, i16)>, Fault> {
    let id = watched.entry.id;
    let sql = ALTERED.replace("journal_N", &format!("journal_{id}"));
    let rows = client.query(&*base.database.sql(&sql), &[&id, &watched.table.oid, &numbers]).await?;
    Ok(rows.iter().map(|row| (row.get(1), row.get(0))).collect())
}

/// Notes new shapes, unless somebody else did. Whoever may only read goes on without.
async fn note(base: &Base, client: &Client, capture: i64, known: usize, new: &[Shape]) -> Result<(), Fault> {
    for (shape, number) in new.iter().zip(known as i32..) {
        let columns = serde_json::to_string(&shape.columns).unwrap_or_default();
        let noted =
            client.execute(&*base.database.sql(NOTE), &[&capture, &number, &shape.since, &columns]).await;
        match noted {
            Err(cause) if may_only_read(&cause) => return Ok(()),
            noted => noted?,
        };
    }
    Ok(())
}

fn may_only_read(cause: &tokio_postgres::Error) -> bool {
    use tokio_postgres::error::SqlState;
    let codes = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];
    cause.code().is_some_and(|code| codes.contains(code))
}
