//! Which rows a feed is about: its filter, as SQL for statements that read.
//!
//! PostgreSQL is asked about each row as it is read. Of a journal's image only the columns are taken out of the JSON that the filter is
//! about, with the types that the table has for them. The filter can do nothing but answer: it has no queries in it, and calls
//! no function that is volatile, so PostgreSQL lets none of them write.

use deadpool_postgres::GenericClient;
use seriatim::backend::{Dialect, Filter};
use seriatim::source::SourceError;

use super::error::Fault;
use super::errors::Names;
use super::names::{literal, quoted};
use super::table::{Column, Table};
use crate::error::is_transient;

const VOLATILE: &str = include_str!("../../queries/functions_volatile.sql");

/// Names that mean something in the statements around a filter: there they would be found instead of a column that is gone.
const AROUND: [&str; 20] = [
    "id",
    "xid",
    "op",
    "at",
    "hash",
    "before",
    "after",
    "fresh",
    "image",
    "in_table",
    "j",
    "r",
    "p",
    "x",
    "e",
    "f",
    "seriatim_row",
    "modified_seq_id",
    "modified_at",
    "listed",
];

/// A filter, ready to be put into statements.
#[derive(Clone, Debug)]
pub(crate) struct RowFilter {
    filter: Filter,
    /// What the row is called in it: as the table is.
    alias: String,
    /// The columns that it is about.
    columns: Vec<Column>,
}

impl RowFilter {
    /// The filter on rows of this table, if there is one.
    pub(crate) fn new(
        filter: Option<&str>,
        table: &Table,
        names: &Names,
    ) -> Result<Option<Self>, SourceError> {
        let Some(text) = filter else { return Ok(None) };
        let sieve = RowFilter::on_rows(text, &table.name, names)?;
        let known: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        if let Some(name) = sieve.found_around(&known) {
            return Err(names.bad_filter(text, &format!("column {name:?} does not exist")));
        }
        let mentioned = |column: &&Column| sieve.filter.mentions(&column.name);
        let columns = table.columns.iter().filter(mentioned).cloned().collect();
        Ok(Some(RowFilter { columns, ..sieve }))
    }

    /// The filter on rows that are called so.
    pub(crate) fn on_rows(text: &str, alias: &str, names: &Names) -> Result<Self, SourceError> {
        let filter = Filter::new(text, Dialect::Postgres).map_err(|why| names.bad_filter(text, &why))?;
        Ok(RowFilter { filter, alias: quoted(alias), columns: Vec::new() })
    }

    /// A name in it that is no column, and that a statement around it would give another meaning.
    fn found_around(&self, columns: &[&str]) -> Option<String> {
        let numbered = (0..100).map(|number| format!("c{number}"));
        let mut around = AROUND.into_iter().map(str::to_owned).chain(numbered);
        around.find(|name| self.filter.mentions(name) && !columns.contains(&name.as_str()))
    }

    /// The names of the columns that it is about.
    pub(crate) fn columns(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|column| column.name.clone())
    }

    /// Whether the filter holds for the row of this name.
    pub(crate) fn row(&self, row: &str) -> String {
        let (filter, alias) = (self.filter.as_str(), &self.alias);
        format!("exists (select from (select {row}.*) as {alias} where ({filter}\n))")
    }

    /// A JSON image, or null when the filter does not hold for it. One that lacks a column that the filter is about, since that is
    /// newer or had another name, is let through: nobody can tell.
    pub(crate) fn image(&self, image: &str) -> String {
        let lacks =
            self.columns.iter().map(|column| format!("({image} -> {}) is null", literal(&column.name)));
        let lacks = std::iter::once("false".to_owned()).chain(lacks).collect::<Vec<_>>().join(" or ");
        let (filter, from) = (self.filter.as_str(), self.record(image));
        format!(
            "case when {lacks} then {image} when exists (select from {from} where ({filter}\n)) then {image} end"
        )
    }

    /// An image's columns, as far as the filter is about them, as a row.
    fn record(&self, image: &str) -> String {
        let defined = self.columns.iter().map(|column| {
            let collate =
                column.collation.as_ref().map_or_else(String::new, |name| format!(" collate {name}"));
            // A domain of documents may have no null, which those that are `null` are in the JSON.
            let of = if column.is_document() { &column.base_name } else { &column.type_name };
            format!("{} {of}{collate}", quoted(&column.name))
        });
        let defined: Vec<String> = defined.collect();
        match defined.as_slice() {
            [] => format!("(select) as {}", self.alias),
            _ => format!("{} as {}", self.documents(image, &defined.join(", ")), self.alias),
        }
    }

    /// Those columns, where a document `null` (see `seriatim.with_null_documents`) is not null.
    fn documents(&self, image: &str, defined: &str) -> String {
        let column = |column: &Column| {
            let name = quoted(&column.name);
            match column.is_document() {
                true => format!(
                    "case when ({image} -> '')::jsonb ? {} then 'null'::{} else {name} end as {name}",
                    literal(&column.name),
                    column.base_name
                ),
                false => name,
            }
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        format!("(select {} from json_to_record({image}) as seriatim_record ({defined}))", columns.join(", "))
    }

    /// Has PostgreSQL say whether it is an expression on columns of an image.
    pub(crate) async fn check(&self, client: &impl GenericClient, names: &Names) -> Result<(), Fault> {
        let from = self.record("null::json");
        self.check_on(client, &from, names).await
    }

    /// Has PostgreSQL say whether it is an expression on columns of what stands there. Executes nothing.
    pub(crate) async fn check_on(
        &self,
        client: &impl GenericClient,
        from: &str,
        names: &Names,
    ) -> Result<(), Fault> {
        let text = self.filter.as_str();
        let called: Vec<String> =
            self.filter.called_names().flat_map(|name| [name.to_owned(), name.to_lowercase()]).collect();
        if let Some(row) = client.query_opt(VOLATILE, &[&called]).await? {
            let name: String = row.get(0);
            let why = format!("{name}() is volatile: it may do more than answer");
            return Err(names.bad_filter(text, &why).into());
        }
        let statement = client.prepare(&format!("select from {from} where ({text}\n)")).await;
        statement.map(drop).map_err(|cause| match (is_transient(&cause), cause.as_db_error()) {
            (false, Some(said)) => names.bad_filter(text, &said.message()).into(),
            _ => Fault::from(cause),
        })
    }
}
