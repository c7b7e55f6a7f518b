//! Which rows a feed is about: its filter, asked of one image after another.
//!
//! An image in a journal is values without their columns' types, and `amount = '10'` means something else then. So each is put into a row
//! of a table that has the columns of the watched one, and SQLite itself is asked, in a database in memory that holds nothing
//! else: whatever the expression says, it can neither read nor write anything but that row. As the definition of a generated
//! column it can have no subqueries, no parameters, and no functions that answer differently each time.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql};
use seriatim::backend::{Dialect, Filter};
use seriatim::source::SourceError;

use super::error::Fault;
use super::errors::Names;
use super::slices::Stepped;
use super::sql::{list, quoted};

/// The row's number and the answer, in a table of which the user names the other columns.
const NUMBER: &str = "\"seriatim number\"";
const ANSWER: &str = "\"seriatim answer\"";

/// Other names of a row's number, which an image does not have.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// A column as far as comparisons go.
pub(super) struct Compared {
    pub name: String,
    /// The declared type.
    pub declared: String,
    pub collation: String,
}

/// A filter, ready to be asked.
#[derive(Debug)]
pub(super) struct RowFilter {
    /// In memory, with one table of one row.
    connection: Connection,
    ask: String,
    /// The places of the columns that it is about.
    places: Vec<usize>,
    names: Names,
}

impl RowFilter {
    /// A sieve for rows of these columns, if there is a filter. `compared` says more about one of them, and texts are encoded so.
    ///
    /// As in a `where`, what comes after an AND is asked only if what comes before it holds: hence the CASE.
    pub(super) fn new(
        filter: Option<&str>,
        columns: &[&str],
        compared: impl Fn(usize) -> Compared,
        encoding: &str,
        names: &Names,
    ) -> Result<Option<Self>, Fault> {
        let Some(text) = filter else { return Ok(None) };
        let filter = Filter::new(text, Dialect::Sqlite).map_err(|why| names.bad_filter(text, &why))?;
        refuse_unknown(&filter, columns, names)?;
        let places: Vec<usize> =
            (0..columns.len()).filter(|place| filter.mentions(columns[*place])).collect();
        let defined = places.iter().map(|place| definition(&compared(*place)) + ", ").collect::<String>();
        let table = quoted(&names.table);
        let create = format!(
            "create table {table} ({NUMBER} integer primary key, {defined}\
             {ANSWER} generated always as (case when ({}\n) then 1 else 0 end) virtual)",
            filter.as_str()
        );
        let named =
            std::iter::once(NUMBER.to_owned()).chain(places.iter().map(|place| quoted(columns[*place])));
        let values = std::iter::once("1".to_owned()).chain((1..=places.len()).map(|n| format!("?{n}")));
        let ask =
            format!("replace into {table} ({}) values ({}) returning {ANSWER}", list(named), list(values));
        let connection = Connection::open_in_memory()?;
        // Texts are compared as they are stored.
        connection.pragma_update(None, "encoding", encoding)?;
        // Committing each row would take longer than asking about it.
        let made = connection.execute_batch(&format!("begin; {create}"));
        let sieve = RowFilter { connection, ask, places, names: names.clone() };
        let nothing = ToSqlOutput::Owned(rusqlite::types::Value::Null);
        made.and_then(|()| sieve.answer(sieve.places.iter().map(|_| nothing.clone())).map(drop))
            .map_err(|said| names.bad_filter(text, &message(&said)))?;
        Ok(Some(sieve))
    }

    /// Whether the filter holds for the image whose first column is there and which has so many columns. One that is older than a
    /// column that the filter is about is let through: nobody can tell.
    fn holds(&self, row: &Stepped<'_>, first: usize, columns: usize) -> Result<bool, Fault> {
        if self.places.iter().any(|place| *place >= columns) {
            return Ok(true);
        }
        let values = self.places.iter().map(|place| ToSqlOutput::Borrowed(row.raw(first + place)));
        Ok(self.answer(values).map_err(|said| self.names.filter_failed(&message(&said)))?)
    }

    fn answer<'v>(&self, values: impl Iterator<Item = ToSqlOutput<'v>>) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(&self.ask)?;
        for (index, value) in values.enumerate() {
            statement.raw_bind_parameter(index + 1, &value as &dyn ToSql)?;
        }
        let mut rows = statement.raw_query();
        let answer = rows.next()?.map_or(Ok(false), |row| row.get(0));
        while rows.next()?.is_some() {}
        answer
    }
}

/// The image that begins there, if the filter holds for it; without a filter, any does.
pub(super) fn sifted(
    sieve: Option<&RowFilter>,
    row: &Stepped<'_>,
    first: Option<usize>,
    columns: usize,
) -> Result<Option<usize>, Fault> {
    match (sieve, first) {
        (Some(sieve), Some(at)) => Ok(sieve.holds(row, at, columns)?.then_some(at)),
        _ => Ok(first),
    }
}

/// In SQLite a name in double quotes that is no column is a text, and every table has a rowid.
fn refuse_unknown(filter: &Filter, columns: &[&str], names: &Names) -> Result<(), SourceError> {
    let is_column = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let known = |name: &str| is_column(name) || name.eq_ignore_ascii_case(&names.table);
    if let Some(name) = filter.quoted_names().find(|name| !known(name)) {
        return Err(names
            .bad_filter(filter.as_str(), &format!("no such column: {name} (texts are in single quotes)")));
    }
    match ROWIDS.into_iter().find(|name| filter.mentions(name) && !is_column(name)) {
        Some(name) => Err(names.bad_filter(filter.as_str(), &format!("{name} is no column of its own"))),
        None => Ok(()),
    }
}

/// What SQLite said, without the statement that it said it about: nobody but us has seen that one.
fn message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => {
            msg.clone()
        }
        other => other.to_string(),
    }
}

fn definition(column: &Compared) -> String {
    format!("{} {} collate {}", quoted(&column.name), affinity(&column.declared), quoted(&column.collation))
}

/// A type of the same affinity, by SQLite's own rules. The declared type itself may be any text.
fn affinity(declared: &str) -> &'static str {
    let declared = declared.to_ascii_uppercase();
    let has = |part: &str| declared.contains(part);
    match () {
        () if has("INT") => "integer",
        () if has("CHAR") || has("CLOB") || has("TEXT") => "text",
        // A STRICT table keeps any value as it is.
        () if has("BLOB") || declared.is_empty() || declared == "ANY" => "blob",
        () if has("REAL") || has("FLOA") || has("DOUB") => "real",
        () => "numeric",
    }
}

/// How a file encodes texts.
pub(super) fn encoding(connection: &Connection) -> rusqlite::Result<String> {
    connection.pragma_query_value(None, "encoding", |row| row.get(0))
}

/// The collation of a table's column.
pub(super) fn collation(connection: &Connection, table: &str, column: &str) -> String {
    let found = connection.column_metadata(Some("main"), table, column);
    // A view's columns have none that could be asked for.
    let name = found.ok().and_then(|(_, collation, ..)| collation.and_then(|name| name.to_str().ok()));
    name.unwrap_or("BINARY").to_owned()
}
