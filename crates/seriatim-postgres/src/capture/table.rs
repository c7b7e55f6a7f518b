//! A table as it is now: what can be watched, and by which key.

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;
use tokio_postgres::Row;

use super::error::Fault;
use super::errors::Names;
use super::names::{TableName, quoted};
use seriatim::backend::most_similar;

const FIND: &str = include_str!("../../queries/table_find.sql");
const SIMILAR: &str = include_str!("../../queries/table_similar.sql");
const READ: &str = include_str!("../../queries/table_read.sql");
const COLUMNS: &str = include_str!("../../queries/table_columns.sql");
const UNIQUES: &str = include_str!("../../queries/table_uniques.sql");

/// A table that can be watched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub partitioned: bool,
    pub columns: Vec<Column>,
    /// The numbers of the primary key's columns, in its order; empty without one.
    pub primary: Vec<i16>,
    /// The columns of each unique index that names every row once.
    pub uniques: Vec<Vec<i16>>,
    /// Something may write to it while a statement on it is not over, or to one row of it several times in a statement.
    pub nests: bool,
    /// Some key of it is checked late.
    pub deferrable: bool,
    /// The partitions that have rows.
    pub partitions: Vec<Part>,
    /// A partition that is a foreign table, and one that this role may not read or put a trigger on.
    pub foreign_partition: Option<String>,
    pub closed_partition: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub oid: u32,
    /// Its name in SQL.
    pub quoted: String,
}

/// A column of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    /// Its number: the same whatever it is called.
    pub number: i16,
    pub name: String,
    /// Its type; a domain's is the type under it.
    pub base: u32,
    /// `b` base, `c` composite, `e` enum, `r` range, …
    pub sort: char,
    /// PostgreSQL's category of the type: `A` array, `N` number, `S` text, …
    pub category: char,
    /// The name of the base type, for casts.
    pub base_name: String,
    /// The name of its own type, for casts.
    pub type_name: String,
    pub not_null: bool,
    /// Its collation, for types that have one.
    pub collation: Option<String>,
    /// Equal texts are the same bytes.
    pub deterministic: bool,
    /// How long its values are, among others; -1 when nobody said.
    pub modifier: i32,
}

impl Table {
    /// The table of this name; refuses what cannot be watched.
    pub(crate) async fn inspect(client: &impl GenericClient, names: &Names) -> Result<Self, Fault> {
        let Some(oid) = find(client, names).await? else {
            return Err(not_found(client, names).await?.into());
        };
        Table::read(client, oid, names).await?.ok_or_else(|| names.table_gone().into())
    }

    /// The table with this oid, whatever it is called by now. `None` when it is gone.
    pub(crate) async fn read(
        client: &impl GenericClient,
        oid: u32,
        names: &Names,
    ) -> Result<Option<Self>, Fault> {
        let Some(row) = client.query_opt(READ, &[&oid]).await? else { return Ok(None) };
        refuse(&row, names)?;
        let columns = client.query(COLUMNS, &[&oid]).await?;
        let uniques = client.query(UNIQUES, &[&oid]).await?;
        Ok(Some(Table {
            oid,
            schema: row.get(0),
            name: row.get(1),
            partitioned: letter(&row, 2) == 'p',
            columns: columns.iter().map(column).collect(),
            primary: row.get::<_, Option<Vec<i16>>>(6).unwrap_or_default(),
            uniques: uniques.iter().map(|row| row.get(0)).collect(),
            nests: row.get(11),
            deferrable: row.get(12),
            partitions: parts(&row),
            foreign_partition: row.get(16),
            closed_partition: row.get(17),
        }))
    }

    /// The table in SQL.
    pub(crate) fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// The JSON of a row of it, in SQL. Whether it has documents is asked once for all rows of a statement.
    pub(crate) fn image(&self, row: &str) -> String {
        let documents = format!("(select seriatim.documents_now({}))", self.oid);
        let image = format!("row_to_json({row})");
        format!(
            "case when {documents} is null then {image} else seriatim.with_null_documents({image}, {row}, {documents}) end"
        )
    }

    /// The table as users write it.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Whether this is its name, as a user wrote it.
    pub(crate) fn is_called(&self, written: &str) -> bool {
        let is_it = |name: &TableName| name.schema == self.schema && name.table == self.name;
        let written = TableName::parse(written);
        written.iter().any(|name| is_it(name) || name.folded().is_some_and(|folded| is_it(&folded)))
    }

    /// Refuses to go on with a table that was renamed, once another one has its name.
    pub(crate) async fn refuse_namesake(
        &self,
        client: &impl GenericClient,
        names: &Names,
    ) -> Result<(), Fault> {
        if self.is_called(&names.table) {
            return Ok(());
        }
        match find(client, names).await? {
            Some(oid) if oid != self.oid => Err(names.namesake(&self.shown()).into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn column(&self, number: i16) -> Option<&Column> {
        self.columns.iter().find(|column| column.number == number)
    }

    /// The numbers of the key's columns: those asked for, or the primary key's.
    pub(crate) fn key(&self, wanted: Option<&[String]>, names: &Names) -> Result<Vec<i16>, SourceError> {
        let key = match wanted {
            Some(wanted) => {
                wanted.iter().map(|name| self.named(name, names)).collect::<Result<Vec<_>, _>>()?
            }
            None => self.primary.clone(),
        };
        if key.is_empty() {
            let remedy = "give it one, or set the feed's `key` to the columns that tell its objects apart";
            return Err(names.not_watchable("has no primary key", remedy));
        }
        for column in key.iter().filter_map(|number| self.column(*number)) {
            if !column.tells_objects_apart() {
                return Err(names.key_type(&column.name, &column.type_name));
            }
        }
        Ok(key)
    }

    fn named(&self, name: &str, names: &Names) -> Result<i16, SourceError> {
        let found = self.columns.iter().find(|column| column.name == name);
        let all = || self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        found.map(|column| column.number).ok_or_else(|| names.no_key_column(name, &all()))
    }

    /// The names of the columns that are asked for, and of the key's; `None` for all.
    pub(crate) fn chosen(
        &self,
        asked: Option<&[String]>,
        key: &[i16],
        names: &Names,
    ) -> Result<Option<Vec<String>>, SourceError> {
        let Some(asked) = asked else { return Ok(None) };
        let known: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let key = key.iter().filter_map(|number| self.column(*number)).map(|column| column.name.clone());
        let find = |wanted: &String| find_column(&known, wanted).map(str::to_owned);
        let found =
            asked.iter().map(|wanted| find(wanted).ok_or_else(|| names.no_such_column(wanted, &known)));
        found.chain(key.map(Ok)).collect::<Result<_, _>>().map(Some)
    }

    /// The columns that name each row once and have an index: the primary key, or another unique index.
    pub(crate) fn identity(&self) -> Option<&[i16]> {
        let primary = (!self.primary.is_empty()).then_some(self.primary.as_slice());
        let usable = |columns: &&[i16]| {
            columns.iter().all(|number| self.column(*number).is_some_and(Column::tells_objects_apart))
        };
        primary.into_iter().chain(self.uniques.iter().map(Vec::as_slice)).find(usable)
    }
}

impl Column {
    /// Whether its values are JSON, so that there is a value `null` beside none.
    pub(crate) fn is_document(&self) -> bool {
        [114, 3802].contains(&self.base)
    }

    /// The length, among others, that its values are filled up to; -1 when they are not.
    pub(crate) fn filled_up_to(&self) -> i32 {
        if self.base == 1042 { self.modifier } else { -1 }
    }

    /// Whether the session of a writer decides how a value is written: its digits, its style of dates.
    pub(crate) fn depends_on_settings(&self) -> bool {
        // float4, float8, interval, money, and whatever may contain one of them or a date as text.
        [700, 701, 1186, 790].contains(&self.base) || !matches!(self.sort, 'b' | 'e') || self.category == 'A'
    }

    /// Whether equal values of the type are always written in the same way, or are made so (see `pack_normal` in value.rs).
    pub(crate) fn tells_objects_apart(&self) -> bool {
        // bool, bytea, "char", name, int8, int2, int4, text, oid, cidr, inet, macaddr8, float4, float8, macaddr, bpchar,
        // varchar, date, time, timestamp, timestamptz, timetz, bit, varbit, numeric, uuid, pg_lsn
        const PLAIN: [u32; 27] = [
            16, 17, 18, 19, 20, 21, 23, 25, 26, 650, 869, 774, 700, 701, 829, 1042, 1043, 1082, 1083, 1114,
            1184, 1266, 1560, 1562, 1700, 2950, 3220,
        ];
        // Blanks at the end count for nothing in a bpchar. Those with a length are all filled up to it.
        let filled = self.base != 1042 || self.modifier >= 0;
        self.deterministic && filled && (self.sort == 'e' || PLAIN.contains(&self.base))
    }
}

/// The column of this name, or, where it is in no quotes here, of the same name in other letters.
pub(crate) fn find_column<'a>(columns: &[&'a str], wanted: &str) -> Option<&'a str> {
    let exact = columns.iter().find(|name| **name == wanted);
    exact.or_else(|| columns.iter().find(|name| name.eq_ignore_ascii_case(wanted))).copied()
}

/// The oid of the table that a user wrote.
pub(crate) async fn find(client: &impl GenericClient, names: &Names) -> Result<Option<u32>, Fault> {
    let no_name = || names.not_watchable("is not a table's name", "write it as schema.table");
    let written = TableName::parse(&names.table).ok_or_else(no_name)?;
    for name in [Some(written.clone()), written.folded()].into_iter().flatten() {
        if let Some(row) = client.query_opt(FIND, &[&name.schema, &name.table]).await? {
            return Ok(Some(row.get(0)));
        }
    }
    Ok(None)
}

/// The sentence about a table that is not there.
pub(crate) async fn not_found(client: &impl GenericClient, names: &Names) -> Result<SourceError, Fault> {
    let tables = client.query(SIMILAR, &[]).await?;
    let candidates: Vec<&str> = tables.iter().map(|row| row.get(0)).collect();
    let written = TableName::parse(&names.table);
    let name =
        written.map_or_else(String::new, |name| format!("{}.{}", name.schema, name.table).to_lowercase());
    let bare = name.rsplit('.').next().unwrap_or_default();
    let elsewhere = candidates.iter().find(|candidate| candidate.rsplit('.').next() == Some(bare));
    Ok(names.no_table(elsewhere.copied().or_else(|| most_similar(&name, &candidates))))
}

/// What cannot be watched, and why.
fn refuse(row: &Row, names: &Names) -> Result<(), SourceError> {
    let (schema, name): (String, String) = (row.get(0), row.get(1));
    let watch_table = "watch the tables whose rows it shows";
    match letter(row, 2) {
        'v' | 'm' => return Err(names.not_watchable("is a view", watch_table)),
        'f' => return Err(names.not_watchable("is a foreign table", "watch it where it lives")),
        _ => {}
    }
    if letter(row, 3) == 't' {
        return Err(names.not_watchable("is a temporary table", "watch a table that stays"));
    }
    if letter(row, 3) == 'u' {
        let remedy = format!("run `alter table {}.{} set logged`", quoted(&schema), quoted(&name));
        return Err(names.not_watchable("is unlogged, so a crash empties it and nobody is told", remedy));
    }
    if let Some(partition) = row.get::<_, Option<String>>(15) {
        let remedy = format!("run `alter table {partition} set logged`");
        return Err(names.not_watchable("has an unlogged partition, which a crash empties unnoticed", remedy));
    }
    if row.get(4) {
        return Err(names.not_watchable("is a partition", "watch the table that it is a partition of"));
    }
    if row.get(5) {
        let remedy = "watch a table without children, or make it a partitioned one";
        return Err(names.not_watchable("inherits from another table, or others from it", remedy));
    }
    let (select, trigger, usage, role): (bool, bool, bool, String) =
        (row.get(7), row.get(8), row.get(9), row.get(10));
    let role = quoted(&role);
    let table = format!("{}.{}", quoted(&schema), quoted(&name));
    if !usage {
        return Err(
            names.missing_grant(&role, &format!("grant usage on schema {} to {role}", quoted(&schema)))
        );
    }
    if !select || !trigger {
        return Err(names.missing_grant(&role, &format!("grant select, trigger on {table} to {role}")));
    }
    Ok(())
}

fn parts(row: &Row) -> Vec<Part> {
    let (numbers, names): (Vec<u32>, Vec<String>) = (row.get(13), row.get(14));
    numbers.into_iter().zip(names).map(|(oid, quoted)| Part { oid, quoted }).collect()
}

fn letter(row: &Row, index: usize) -> char {
    row.get::<_, &str>(index).chars().next().unwrap_or(' ')
}

fn column(row: &Row) -> Column {
    Column {
        number: row.get(0),
        name: row.get(1),
        base: row.get(2),
        sort: letter(row, 3),
        category: letter(row, 4),
        base_name: row.get(5),
        not_null: row.get(6),
        type_name: row.get(7),
        collation: row.get(8),
        deterministic: row.get(9),
        modifier: row.get(12),
    }
}
