//! What a table looks like: columns, keys, and everything that a row can collide with.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use seriatim::source::SourceError;

use super::defaults::foresee;
use super::error::Fault;
use super::errors::Names;
use super::generated;
use super::names::Edition;
use super::sql::{list, quoted};
use super::users_triggers;
use seriatim::backend::most_similar;

pub(super) const KIND: &str = include_str!("../../queries/table_kind.sql");
const NAMES: &str = include_str!("../../queries/table_names.sql");
const COLUMNS: &str = include_str!("../../queries/table_columns.sql");
const SQL: &str = include_str!("../../queries/table_sql.sql");
const UNIQUES: &str = include_str!("../../queries/table_uniques.sql");

/// SQLite allows 2,000 columns in a table, and a journal keeps two for each, and three of its own.
const MOST_COLUMNS: usize = 998;

/// A table that can be watched.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// Its name, in its own spelling.
    pub name: String,
    /// All its columns in order, generated ones included. A column's index is its *slot*: renames leave it alone.
    pub columns: Vec<Column>,
    /// Its primary key.
    pub primary: Vec<Indexed>,
    /// Its other unique constraints and indexes.
    pub uniques: Vec<Unique>,
    /// Its rows have a rowid, be it the primary key itself.
    pub has_rowid: bool,
    /// The name of the rowid, when there is one beside the primary key.
    pub rowid: Option<&'static str>,
    /// A user's trigger may write to it after our trigger *before* a write and ahead of the write itself.
    pub interposed: bool,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub name: String,
    /// The declared type.
    pub declared: String,
    pub not_null: bool,
    /// The value of the default, as triggers before a write foresee it.
    pub default: Option<String>,
    /// They cannot foresee it.
    pub by_chance: bool,
    pub generated: bool,
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Indexed {
    pub slot: usize,
    pub collation: String,
}

/// A unique constraint or index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unique {
    pub columns: Vec<Indexed>,
    /// It holds for some of the rows only.
    pub partial: bool,
    /// The name of an index that was made by itself; one that came with the table has none.
    pub name: Option<String>,
}

/// What triggers know of their table, beside its columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// How they are made.
    #[serde(default)]
    pub edition: Edition,
    /// What each way of being unique looks like, with the index's name.
    pub uniques: Vec<(Option<String>, String)>,
    /// Log of an older edition: see [`Table::interposed`]. Without it, a version of Seriatim that knows only the first edition
    /// stops instead of reading on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interposed: Option<bool>,
}

impl Column {
    /// `OR REPLACE` puts its default in place of a NULL, but only after the triggers before the write.
    pub(super) fn is_late(&self) -> bool {
        self.not_null && self.default.is_some()
    }

    /// SQLite keeps 1 and 1.0 apart in such a column, though it compares them as equal.
    pub(super) fn keeps_types_apart(&self) -> bool {
        let declared = self.declared.to_ascii_uppercase();
        declared.is_empty() || declared == "ANY" || declared.contains("BLOB")
    }
}

impl Table {
    /// Looks at the table and refuses what cannot be watched.
    pub(super) fn inspect(connection: &Connection, names: &Names) -> Result<Self, Fault> {
        refuse_by_name(names)?;
        let found = connection.query_row(KIND, [&names.table], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
        });
        let Some((name, kind, without_rowid)) = found.optional()? else {
            return Err(no_such_table(connection, names)?.into());
        };
        refuse_by_kind(&kind, names)?;
        let (columns, primary) = columns(connection, &name)?;
        if primary.is_empty() {
            let remedy = "make the table anew with a PRIMARY KEY: a change must say which row it is about";
            return Err(names.not_watchable("has no primary key", remedy).into());
        }
        if columns.len() > MOST_COLUMNS {
            let why = format!("has {} columns", columns.len());
            return Err(names.not_watchable(&why, "split it: at most 998 can be watched").into());
        }
        let has_rowid = !without_rowid;
        let mut table =
            Table { name, columns, primary, uniques: Vec::new(), has_rowid, rowid: None, interposed: false };
        table.interposed = interposed(connection, &table.name)?;
        let has_key_index = table.read_indexes(connection, names)?;
        if has_key_index && !without_rowid {
            table.rowid = table.rowid_name();
        }
        refuse_unforeseeable(connection, &table, names)?;
        refuse_chance(&table, names)?;
        Ok(table)
    }

    /// Reads the unique indexes; says whether the primary key is one of them (it isn't when it is the rowid).
    fn read_indexes(&mut self, connection: &Connection, names: &Names) -> Result<bool, Fault> {
        let mut has_key_index = false;
        for index in unique_indexes(connection, &self.name)? {
            let Some(columns) = index.columns else {
                let remedy = "put the expression into a generated column and make that unique instead";
                return Err(names.not_watchable("has a unique index on an expression", remedy).into());
            };
            if index.origin == "pk" {
                has_key_index = true;
                self.primary = columns;
            } else {
                let name = (index.origin == "c").then_some(index.name);
                self.uniques.push(Unique { columns, partial: index.partial, name });
            }
        }
        Ok(has_key_index)
    }

    /// What triggers made now would know.
    pub(super) fn known(&self) -> Known {
        let column = |column: &Indexed| format!("{} {}", column.slot, column.collation);
        let unique = |unique: &Unique| {
            let partial = if unique.partial { "some: " } else { "" };
            (unique.name.clone(), partial.to_owned() + &list(unique.columns.iter().map(column)))
        };
        let mut uniques: Vec<_> = self.uniques.iter().map(unique).collect();
        uniques.sort();
        Known { edition: Edition::NOW, uniques, interposed: None }
    }

    /// A name of the rowid that no column of the table has taken.
    fn rowid_name(&self) -> Option<&'static str> {
        let taken = |name: &&str| self.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        ["rowid", "_rowid_", "oid"].into_iter().find(|name| !taken(name))
    }

    /// The slots of the primary key's columns.
    pub(super) fn primary_slots(&self) -> Vec<usize> {
        self.primary.iter().map(|column| column.slot).collect()
    }

    /// The slot of an INTEGER PRIMARY KEY, for which SQLite chooses a value when there is none.
    pub(super) fn chosen_key(&self) -> Option<usize> {
        (self.has_rowid && self.rowid.is_none()).then(|| self.primary[0].slot)
    }

    /// Slots of the primary key that can be NULL.
    pub(super) fn nullable_key(&self) -> Vec<usize> {
        self.primary_slots().into_iter().filter(|slot| self.is_nullable(*slot)).collect()
    }

    /// Whether a column, also one of the primary key, can be NULL.
    pub(super) fn is_nullable(&self, slot: usize) -> bool {
        let in_key = self.primary.iter().any(|one| one.slot == slot);
        !self.columns[slot].not_null && self.chosen_key() != Some(slot) && (self.has_rowid || !in_key)
    }

    /// The new value of a column, before the write. `OR REPLACE` puts the default in place of a NULL that must not be, but only
    /// after the triggers before the write.
    pub(super) fn as_it_will_be(&self, slot: usize) -> String {
        self.will_be(slot, format!("new.{}", self.column(slot)))
    }

    /// The same, of a column that has this value.
    pub(super) fn will_be(&self, slot: usize, new: String) -> String {
        let column = &self.columns[slot];
        match &column.default {
            Some(default) if column.not_null => format!("ifnull({new}, ({default}))"),
            _ => new,
        }
    }

    /// The column's name as an identifier.
    pub(super) fn column(&self, slot: usize) -> String {
        quoted(&self.columns[slot].name)
    }

    /// The table's name as an identifier.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// The slots of these columns; of the primary key when none are given.
    pub(super) fn key_slots(&self, key: Option<&[String]>, names: &Names) -> Result<Vec<usize>, SourceError> {
        let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(self.primary_slots()) };
        let slot = |name: &String| {
            let found = self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
            found.ok_or_else(|| names.no_key_column(name, &self.column_names()))
        };
        key.iter().map(slot).collect()
    }

    /// The unique index over exactly these columns, when it names one row at most: the primary key, or one without NULLs.
    pub(super) fn unique_over(&self, slots: &[usize]) -> Option<&[Indexed]> {
        let over = |columns: &[Indexed]| {
            columns.len() == slots.len() && columns.iter().all(|column| slots.contains(&column.slot))
        };
        if over(&self.primary) {
            return Some(&self.primary);
        }
        let never_null = |column: &Indexed| self.columns[column.slot].not_null;
        let fits = |unique: &&Unique| {
            !unique.partial && over(&unique.columns) && unique.columns.iter().all(never_null)
        };
        self.uniques.iter().find(fits).map(|unique| unique.columns.as_slice())
    }

    /// Whether the row `r` has this value in a column of a unique key: by the index's own collation, to find it fast, and byte
    /// for byte, since 'a' and 'A' are two keys.
    pub(super) fn same_key_column(&self, key: &[usize], slot: usize, value: &str) -> [String; 2] {
        let column = self.column(slot);
        let indexed = self.unique_over(key).and_then(|unique| unique.iter().find(|one| one.slot == slot));
        let collation = quoted(indexed.map_or("BINARY", |one| &one.collation));
        [
            format!("r.{column} is {value} collate {collation}"),
            format!("r.{column} is {value} collate binary"),
        ]
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The names of all columns, for a sentence.
    pub(super) fn column_names(&self) -> String {
        list(self.columns.iter().map(|column| column.name.clone()))
    }
}

/// Whether there is a table, or anything like one, of this name.
pub(super) fn exists(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached(KIND)?.exists([name])
}

fn interposed(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let triggers = users_triggers::list(connection)?;
    let writes = triggers.iter().any(|trigger| trigger.may_write(table));
    Ok(writes && triggers.iter().any(|trigger| trigger.is_before(table)))
}

/// There is no such table; perhaps another one was meant.
pub(super) fn no_such_table(connection: &Connection, names: &Names) -> rusqlite::Result<SourceError> {
    let mut statement = connection.prepare(NAMES)?;
    let tables = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    Ok(names.no_table(most_similar(&names.table, &tables)))
}

fn refuse_by_name(names: &Names) -> Result<(), SourceError> {
    let lower = names.table.to_ascii_lowercase();
    if lower.starts_with("seriatim_") || lower.starts_with("sqlite_") {
        return Err(names.not_watchable("is not one of your tables", "set `table` to a table of your own"));
    }
    Ok(())
}

fn refuse_by_kind(kind: &str, names: &Names) -> Result<(), SourceError> {
    match kind {
        "table" => Ok(()),
        "view" => Err(names.not_watchable("is a view", "watch the tables that it shows")),
        "virtual" | "shadow" => {
            Err(names
                .not_watchable("is a virtual table, and those have no triggers", "watch an ordinary table"))
        }
        other => Err(names.not_watchable(&format!("is a {other}"), "watch an ordinary table")),
    }
}

/// A unique generated column must not depend on what is not known before a write.
fn refuse_unforeseeable(connection: &Connection, table: &Table, names: &Names) -> Result<(), Fault> {
    let indexed = table.uniques.iter().flat_map(|unique| &unique.columns).chain(&table.primary);
    for column in indexed.map(|one| &table.columns[one.slot]).filter(|column| column.generated) {
        let late = |other: &&Column| other.is_late() || (other.generated && other.name != column.name);
        let mut unknown: Vec<&str> =
            table.columns.iter().filter(late).map(|other| other.name.as_str()).collect();
        if table.has_rowid {
            unknown.extend(["rowid", "_rowid_", "oid"]);
        }
        if table.has_rowid && table.rowid.is_none() {
            unknown.push(&table.columns[table.primary[0].slot].name);
        }
        let sql: String = connection.query_row(SQL, [&table.name], |row| row.get(0))?;
        if generated::may_depend(&sql, &column.name, &unknown) {
            return Err(names.unforeseeable(&column.name).into());
        }
    }
    Ok(())
}

/// `OR REPLACE` puts a default in place of a NULL: which row gives way for it must be known before the write.
fn refuse_chance(table: &Table, names: &Names) -> Result<(), SourceError> {
    let mut indexed = table.uniques.iter().flat_map(|unique| &unique.columns).chain(&table.primary);
    let by_chance = |one: &&Indexed| {
        let column = &table.columns[one.slot];
        column.is_late() && column.by_chance && table.chosen_key() != Some(one.slot)
    };
    match indexed.find(by_chance) {
        Some(one) => Err(names.default_by_chance(&table.columns[one.slot].name)),
        None => Ok(()),
    }
}

/// The columns of a table in order, and those of its primary key.
pub(super) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<(Vec<Column>, Vec<Indexed>)> {
    let mut statement = connection.prepare(COLUMNS)?;
    let mut rows = statement.query([table])?;
    let (mut columns, mut primary) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let place_in_key: i64 = row.get(4)?;
        let default = row.get::<_, Option<String>>(3)?.map(|default| foresee(connection, &default));
        if place_in_key > 0 {
            primary.push((place_in_key, Indexed { slot: columns.len(), collation: "BINARY".to_owned() }));
        }
        columns.push(Column {
            name: row.get(0)?,
            declared: row.get(1)?,
            not_null: row.get(2)?,
            by_chance: default.as_ref().is_some_and(|default| default.by_chance),
            default: default.map(|default| default.sql),
            generated: row.get(5)?,
        });
    }
    primary.sort_by_key(|(place, _)| *place);
    Ok((columns, primary.into_iter().map(|(_, column)| column).collect()))
}

/// A unique index as SQLite lists it; without columns when one of them is an expression.
struct Listed {
    number: i64,
    name: String,
    origin: String,
    partial: bool,
    columns: Option<Vec<Indexed>>,
}

fn unique_indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Listed>> {
    let mut statement = connection.prepare(UNIQUES)?;
    let mut rows = statement.query([table])?;
    let mut indexes: Vec<Listed> = Vec::new();
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        if indexes.last().is_none_or(|last| last.number != number) {
            let (origin, partial) = (row.get(1)?, row.get(2)?);
            indexes.push(Listed { number, name: row.get(5)?, origin, partial, columns: Some(Vec::new()) });
        }
        let column = match usize::try_from(row.get::<_, i64>(3)?) {
            Ok(slot) => Some(Indexed { slot, collation: row.get(4)? }),
            Err(_) => None,
        };
        if let Some(index) = indexes.last_mut() {
            index.columns = index.columns.take().zip(column).map(|(mut columns, column)| {
                columns.push(column);
                columns
            });
        }
    }
    Ok(indexes)
}
