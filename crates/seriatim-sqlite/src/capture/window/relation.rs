//! The rows that a window is over: their columns, and the statements that read them in order.

use rusqlite::{Connection, OptionalExtension};
use seriatim::value::Columns;

use super::super::chosen::{self, Chosen};
use super::super::error::Fault;
use super::super::key_columns::key_columns;
use super::super::row_filter::{Compared, RowFilter, collation, encoding};
use super::super::slices::Stepped;
use super::super::sql::{list, quoted};
use super::super::table::{self, KIND};
use super::super::value::Exact;
use super::errors::bad_query;
use super::place::Place;
use super::settings::{From, Settings};

/// A table or query whose rows have moments.
#[derive(Debug)]
pub(super) struct Relation {
    /// The table's name, or the query in parentheses.
    from: String,
    pub columns: Columns,
    /// What is delivered of a row.
    pub chosen: Chosen,
    /// The columns' declared types.
    declared: Vec<String>,
    pub key_columns: Columns,
    /// Where the columns of the key are.
    pub key: Vec<usize>,
    /// Where the columns are that order the rows of one moment and tell them apart.
    pub tie: Vec<usize>,
    pub changed_at: usize,
    /// The tie is SQLite's own number of the row, which every index has in it.
    tie_is_rowid: bool,
    /// The columns of the tie in SQL. They are compared by their bytes, whatever their collations: under others, two rows of
    /// one moment may be equal though the primary key tells them apart.
    compared: Vec<String>,
}

/// Which of the columns a statement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// All of them, in their order.
    Rows,
    /// The moment and the key, in this order.
    Keys,
}

/// Statements that yield, one after another, the rows after a place, in order.
#[derive(Debug)]
pub(super) struct Reading {
    /// The rows of the place's own moment.
    pub same: Option<String>,
    /// The rows of later moments.
    pub later: String,
}

impl Relation {
    pub(super) fn inspect(connection: &Connection, settings: &Settings) -> Result<Self, Fault> {
        let Found { from, names, declared, primary, tie_is_rowid } = match &settings.from {
            From::Table => of_table(connection, settings)?,
            From::Query(query) => of_query(connection, settings, query)?,
        };
        let find = |setting: &str, wanted: &str| {
            let found = names.iter().position(|name| name.eq_ignore_ascii_case(wanted));
            found.ok_or_else(|| {
                let all: Vec<&str> = names.iter().map(String::as_str).collect();
                settings.no_column(setting, wanted, &all)
            })
        };
        let changed_at = find("changed_at", &settings.changed_at)?;
        let given =
            settings.key.iter().flatten().map(|name| find("key", name)).collect::<Result<Vec<_>, _>>()?;
        let key = if given.is_empty() { primary.clone() } else { given };
        if key.is_empty() {
            return Err(settings.needs_key().into());
        }
        let tie = if primary.is_empty() { key.clone() } else { primary };
        let of_key = key.iter().map(|index| (names[*index].as_str(), declared[*index].as_str()));
        let key_columns = key_columns(of_key);
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let places = chosen::places(settings.columns.as_deref(), &key, &all, &settings.names)?;
        let chosen = Chosen::new(&all, |place| places.as_ref().is_none_or(|places| places.contains(&place)));
        let columns = Columns::new(&names);
        let by_bytes = |index: &usize| match (&settings.from, tie_is_rowid) {
            (From::Table, true) => true,
            (From::Table, false) => {
                collation(connection, &settings.names.table, &names[*index]).eq_ignore_ascii_case("binary")
            }
            (From::Query(_), _) => false,
        };
        let compared = |index: &usize| match by_bytes(index) {
            true => quoted(&names[*index]),
            false => format!("{} collate binary", quoted(&names[*index])),
        };
        let compared = tie.iter().map(compared).collect();
        Ok(Relation {
            from,
            columns,
            chosen,
            declared,
            key_columns,
            key,
            tie,
            changed_at,
            tie_is_rowid,
            compared,
        })
    }

    /// The settings' filter on these rows, if they have one.
    pub(super) fn sieve(
        &self,
        connection: &Connection,
        settings: &Settings,
    ) -> Result<Option<RowFilter>, Fault> {
        let names: Vec<&str> = self.columns.names().collect();
        let compared = |place: usize| {
            let name = names[place];
            let collation = collation(connection, &settings.names.table, name);
            Compared { name: name.to_owned(), declared: self.declared[place].clone(), collation }
        };
        RowFilter::new(settings.filter.as_deref(), &names, compared, &encoding(connection)?, &settings.names)
    }

    /// What stands for the rows in SQL.
    pub(super) fn from(&self) -> &str {
        &self.from
    }

    fn column(&self, index: usize) -> String {
        quoted(self.columns.names().nth(index).unwrap_or_default())
    }

    fn selected(&self, read: Read) -> String {
        match read {
            Read::Rows => list((0..self.columns.len()).map(|index| self.column(index))),
            Read::Keys => list(
                std::iter::once(self.changed_at)
                    .chain(self.key.iter().copied())
                    .map(|index| self.column(index)),
            ),
        }
    }

    /// What reads on after a place. `?1` is the place's moment or the least one wanted, `?2` how many rows at most, and the tie
    /// follows.
    pub(super) fn after(&self, place: &Place, read: Read) -> Reading {
        let (from, list_of) = (&self.from, self.selected(read));
        let (at, tie) = (self.column(self.changed_at), list(self.compared.iter().cloned()));
        let order = format!("order by {at}, {tie} limit ?2");
        let later = |condition: &str| format!("select {list_of} from {from} where {at} {condition} {order}");
        match place {
            Place::Beginning => Reading { same: None, later: later("is not null and ?1 is not 0") },
            Place::Since(_) => Reading { same: None, later: later(">= ?1") },
            Place::Row(_) => {
                let marks = list((0..self.tie.len()).map(|index| format!("?{}", index + 3)));
                let same = format!(
                    "select {list_of} from {from} where {at} = ?1 and ({tie}) > ({marks}) order by {tie} limit ?2"
                );
                Reading { same: Some(same), later: later("> ?1") }
            }
        }
    }

    /// What reads the first row whose moment is `?1` or greater, and less than `?2`.
    pub(super) fn first_between(&self) -> String {
        let (at, list_of) = (self.column(self.changed_at), self.selected(Read::Rows));
        format!("select {list_of} from {} where {at} >= ?1 and {at} < ?2 order by {at} limit 1", self.from)
    }

    /// A row by its key, for a sentence.
    pub(super) fn shown(&self, row: &Stepped<'_>) -> String {
        let column =
            |(name, index): (&str, &usize)| format!("{name} {}", Exact::from(row.raw(*index)).to_json());
        self.key_columns.names().zip(&self.key).map(column).collect::<Vec<_>>().join(", ")
    }

    /// The index without which every look reads all rows.
    pub(super) fn index(&self, settings: &Settings) -> String {
        let tie = self.tie.iter().zip(&self.compared).filter(|(index, _)| **index != self.changed_at);
        let tie = tie.filter(|_| !self.tie_is_rowid).map(|(_, column)| column.clone());
        let columns = std::iter::once(self.column(self.changed_at)).chain(tie);
        match settings.from {
            From::Table => {
                let name = quoted(&format!("{}_{}", settings.names.table, settings.changed_at));
                format!("create index {name} on {} ({})", self.from, list(columns))
            }
            From::Query(_) => format!("make an index on what the query has as {}", settings.changed_at),
        }
    }
}

/// Where rows come from.
struct Found {
    /// What stands for them in SQL.
    from: String,
    names: Vec<String>,
    /// The columns' declared types.
    declared: Vec<String>,
    /// The places of the primary key's columns, and whether that is the rowid.
    primary: Vec<usize>,
    tie_is_rowid: bool,
}

fn of_table(connection: &Connection, settings: &Settings) -> Result<Found, Fault> {
    let names = &settings.names;
    let found = connection
        .query_row(KIND, [&names.table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(2)?)));
    let Some((name, without_rowid)) = found.optional()? else {
        return Err(table::no_such_table(connection, names)?.into());
    };
    let (columns, primary) = table::columns(connection, &name)?;
    let primary: Vec<usize> = primary.iter().map(|column| column.slot).collect();
    let tie_is_rowid = match primary[..] {
        [only] => !without_rowid && columns[only].declared.eq_ignore_ascii_case("integer"),
        _ => false,
    };
    let (names, declared) = columns.into_iter().map(|column| (column.name, column.declared)).unzip();
    Ok(Found { from: quoted(&name), names, declared, primary, tie_is_rowid })
}

fn of_query(connection: &Connection, settings: &Settings, query: &str) -> Result<Found, Fault> {
    let query = query.trim().trim_end_matches(';');
    // On a line of its own, in case the query ends with a comment.
    let from = format!("({query}\n)");
    let statement =
        connection.prepare(&format!("select * from {from}")).map_err(|said| bad_query(settings, &said))?;
    let declared = |column: &rusqlite::Column<'_>| column.decl_type().unwrap_or_default().to_owned();
    let columns = statement.columns().map(|column| (column.name().to_owned(), declared(&column)));
    let (names, declared) = columns.unzip();
    Ok(Found { from, names, declared, primary: Vec::new(), tie_is_rowid: false })
}
