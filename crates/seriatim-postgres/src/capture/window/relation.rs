//! The rows that a window is over: their columns, and the statements that read them in order.

use deadpool_postgres::Transaction;
use seriatim::backend::rows::least_text;
use seriatim::value::Columns;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::error::Fault;
use super::super::names::{TableName, literal, quoted};
use super::super::row_filter::RowFilter;
use super::super::table;
use super::columns::RowColumns;
use super::errors::{bad_query, no_kind};
use super::moment::{EARLIEST, Kind};
use super::place::{Place, PositionCodec};
use super::settings::{From, Settings};
use crate::error::is_transient;

const TABLE: &str = include_str!("../../../queries/window_table.sql");

/// The name of a row in all statements: nobody has a column of this name.
const ROW: &str = "\"!\"";

/// A table or query whose rows have moments.
#[derive(Debug)]
pub(super) struct Relation {
    /// The table's name, or the query in parentheses.
    from: String,
    columns: Vec<(String, Type)>,
    pub row: RowColumns,
    /// The filter, if there is one.
    sieve: Option<RowFilter>,
    /// Where names in the rows' query are looked for.
    pub search_path: String,
    /// The table, and what its columns looked like before they were looked at; none for a query.
    pub table: Option<(u32, String)>,
    pub key: Vec<String>,
    /// What orders the rows of one moment and tells them apart.
    tie: Vec<Ordering>,
    changed_at: Ordering,
    pub kind: Kind,
    /// The tie is the primary key: it is never null, and names one row.
    pub tie_is_primary: bool,
    /// Where a statement has what: one that reads whole rows, and any other.
    whole: Layout,
    part: Layout,
    /// What a statement that reads whole rows has to select beside them.
    beside: Vec<String>,
}

/// A column that rows are ordered by.
#[derive(Debug)]
struct Ordering {
    name: String,
    /// Its type, for casts.
    cast: String,
}

/// Which of the columns a statement reads, beside the moment and the tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The whole row.
    Rows,
    /// The columns of the key.
    Keys,
    /// Nothing more.
    Places,
}

/// Where a statement has what. In a whole row, the moment and the tie are mostly columns that are read anyway.
#[derive(Debug)]
pub(super) struct Layout {
    /// Where the moment is.
    pub moment: usize,
    /// Where each value of the tie is, and how it is read.
    pub ties: Vec<(usize, TieAs)>,
    /// Where the columns of the row, or of the key, begin.
    pub columns: usize,
    /// Where it is told whether the filter holds.
    pub matches: usize,
}

/// How a value of a tie is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TieAs {
    Integer,
    Text,
}

/// Which rows a statement reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lower<'a> {
    /// All of them.
    None,
    /// Those of this moment, or a later one.
    From(&'a str),
    /// Those after this one.
    After(&'a str, &'a [String]),
}

/// A statement, and what its parameters are.
#[derive(Debug)]
pub(super) struct Reading {
    pub sql: String,
    pub parameters: Vec<String>,
}

impl Reading {
    /// The statement with its parameters in it, for statements that take none.
    pub(super) fn literal(&self) -> String {
        let numbered = self.parameters.iter().enumerate().rev();
        numbered.fold(self.sql.clone(), |sql, (index, value)| {
            sql.replace(&format!("${}::text", index + 1), &format!("{}::text", literal(value)))
        })
    }
}

impl Layout {
    /// The moment first, then so many columns of the tie, as text.
    fn of_part(ties: usize) -> Self {
        let (moment, columns) = (0, 1 + ties);
        Layout { moment, ties: (1..columns).map(|at| (at, TieAs::Text)).collect(), columns, matches: columns }
    }
}

/// What stands for the rows in SQL, the primary key's columns, and the table.
type Source = (String, Vec<String>, Option<(u32, String)>);

impl Relation {
    pub(super) async fn inspect(
        transaction: &Transaction<'_>,
        settings: &Settings,
        search_path: &str,
    ) -> Result<Self, Fault> {
        let (from, primary, table) = match &settings.from {
            From::Table => of_table(transaction, settings).await?,
            // On a line of its own, in case the query ends with a comment.
            From::Query(query) => (format!("({}\n)", query.trim().trim_end_matches(';')), Vec::new(), None),
        };
        let said = |cause: tokio_postgres::Error| match is_transient(&cause) {
            true => Fault::from(cause),
            false => bad_query(settings, &cause).into(),
        };
        let statement = transaction.prepare(&format!("select * from {from} as {ROW}")).await.map_err(said)?;
        let columns: Vec<(String, Type)> = statement
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.type_().clone()))
            .collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let find = |setting: &str, wanted: &str| {
            let exact = names.iter().position(|name| *name == wanted);
            let found = exact.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(wanted)));
            found.ok_or_else(|| settings.no_column(setting, wanted, &names))
        };
        let ordering = |index: usize| {
            let (name, of) = &columns[index];
            Ordering { name: name.clone(), cast: format!("{}.{}", quoted(of.schema()), quoted(of.name())) }
        };
        let at = find("changed_at", &settings.changed_at)?;
        let kind = Kind::of(&columns[at].1, statement.columns()[at].type_modifier(), settings.unit)
            .map_err(|why| no_kind(settings, why, columns[at].1.name()))?;
        let given =
            settings.key.iter().flatten().map(|name| find("key", name)).collect::<Result<Vec<_>, _>>()?;
        let primary = primary.iter().map(|name| find("key", name)).collect::<Result<Vec<_>, _>>()?;
        let key = if given.is_empty() { primary.clone() } else { given };
        if key.is_empty() {
            return Err(settings.needs_key().into());
        }
        let tie = if primary.is_empty() { &key } else { &primary };
        let tie = tie.iter().map(|index| ordering(*index)).collect();
        let changed_at = match kind {
            // Wider than the column may be, so that every bound fits.
            Kind::Number(_) => Ordering { cast: "pg_catalog.int8".to_owned(), ..ordering(at) },
            _ => ordering(at),
        };
        let key: Vec<String> = key.iter().map(|index| columns[*index].0.clone()).collect();
        let chosen = settings.columns.iter().flatten().map(|name| find("columns", name));
        let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        let sieve = sieve(transaction, settings, &from).await?;
        let row = RowColumns::new(&columns, &key);
        let mut relation = Relation {
            whole: Layout::of_part(0),
            part: Layout::of_part(if primary.is_empty() { key.len() } else { primary.len() }),
            beside: Vec::new(),
            row: if settings.columns.is_some() { row.choosing(&chosen) } else { row },
            sieve,
            search_path: search_path.to_owned(),
            table,
            key,
            tie,
            tie_is_primary: !primary.is_empty(),
            changed_at,
            from,
            kind,
            columns,
        };
        relation.lay_out_whole_rows();
        // Whatever cannot be ordered is told here.
        let tie: Vec<String> = relation.tie.iter().map(|_| String::new()).collect();
        let reading = relation.reading(Read::Rows, Lower::After("", &tie), None, 1);
        transaction.prepare(&reading.sql).await.map_err(said)?;
        Ok(relation)
    }

    /// Finds moment and tie among the columns of a whole row; what is not among them is selected beside.
    fn lay_out_whole_rows(&mut self) {
        let columns = self.columns.len();
        let place = |name: &str| self.columns.iter().position(|(known, _)| known == name);
        let mut beside = Vec::new();
        let mut select = |sql: String| {
            beside.push(sql);
            columns + beside.len() - 1
        };
        let at = place(&self.changed_at.name).filter(|at| self.row.is_read_as(*at, self.kind));
        let moment = at.unwrap_or_else(|| select(self.moment()));
        let tie = |(tie, column): (&Ordering, String)| {
            let read = place(&tie.name).and_then(|at| Some((at, self.row.tie_as(at)?)));
            read.unwrap_or_else(|| (select(format!("{column}::pg_catalog.text")), TieAs::Text))
        };
        let ties = self.tie.iter().zip(self.tie_columns()).map(tie).collect();
        self.whole = Layout { moment, ties, columns: 0, matches: columns + beside.len() };
        self.beside = beside;
    }

    /// Where a statement has what.
    pub(super) fn layout(&self, read: Read) -> &Layout {
        match read {
            Read::Rows => &self.whole,
            Read::Keys | Read::Places => &self.part,
        }
    }

    /// How positions write what orders the rows.
    pub(super) fn spelling(&self) -> PositionCodec {
        PositionCodec { kind: self.kind, ties: self.ties() }
    }

    /// Whether the filter holds for a row that was read whole.
    pub(super) fn matches(&self, row: &Row) -> bool {
        self.sieve.is_none() || row.get(self.whole.matches)
    }

    /// How many columns a tie has.
    pub(super) fn ties(&self) -> usize {
        self.tie.len()
    }

    /// The names of the columns that are delivered.
    pub(super) fn column_names(&self) -> Vec<String> {
        self.row.delivered_names().names().map(str::to_owned).collect()
    }

    pub(super) fn column_types(&self) -> Vec<(String, Type)> {
        let known = |(name, of): &(String, Type)| Type::from_oid(of.oid()).map(|of| (name.clone(), of));
        self.columns.iter().filter_map(known).collect()
    }

    pub(super) fn key_columns(&self) -> Columns {
        Columns::new(&self.key)
    }

    fn at(&self) -> String {
        format!("{ROW}.{}", quoted(&self.changed_at.name))
    }

    fn tie_columns(&self) -> Vec<String> {
        self.tie.iter().map(|tie| format!("{ROW}.{}", quoted(&tie.name))).collect()
    }

    /// The moment as it is read: always of the same type, so that a statement outlives a change of the column's.
    fn moment(&self) -> String {
        let of = match self.kind {
            Kind::Number(_) => "pg_catalog.int8",
            Kind::Text => "pg_catalog.text",
            Kind::Time { .. } | Kind::Date => &self.changed_at.cast,
        };
        format!("{}::{of}", self.at())
    }

    fn selected(&self, read: Read) -> String {
        if read == Read::Rows {
            let filter = self.sieve.as_ref().map(|sieve| sieve.row(ROW));
            let whole = std::iter::once(self.row.all(ROW)).chain(self.beside.iter().cloned()).chain(filter);
            return whole.collect::<Vec<_>>().join(", ");
        }
        let mut list = vec![self.moment()];
        list.extend(self.tie_columns().iter().map(|tie| format!("{tie}::pg_catalog.text")));
        if read == Read::Keys {
            list.push(self.row.of_key(ROW));
        }
        list.join(", ")
    }

    /// What reads these rows up to, and without, those of a moment, in order, at most so many.
    pub(super) fn reading(&self, read: Read, lower: Lower<'_>, upper: Option<&str>, most: usize) -> Reading {
        let (at, tie, cast) = (self.at(), self.tie_columns().join(", "), &self.changed_at.cast);
        let mut parameters = Vec::new();
        let mut conditions = Vec::new();
        match lower {
            Lower::None => conditions.push(format!("{at} is not null")),
            Lower::From(least) => {
                parameters.push(least.to_owned());
                conditions.push(format!("{at} >= $1::text::{cast}"));
            }
            Lower::After(raw, ties) => {
                parameters.push(raw.to_owned());
                parameters.extend(ties.iter().cloned());
                let marks: Vec<String> =
                    self.tie.iter().zip(2..).map(|(tie, n)| format!("${n}::text::{}", tie.cast)).collect();
                conditions.push(format!("({at}, {tie}) > ($1::text::{cast}, {})", marks.join(", ")));
            }
        }
        if let Some(upper) = upper {
            parameters.push(upper.to_owned());
            conditions.push(format!("{at} < ${}::text::{cast}", parameters.len()));
        }
        let (list, conditions) = (self.selected(read), conditions.join(" and "));
        let sql = format!(
            "select {list} from {} as {ROW} where {conditions} order by {at}, {tie} limit {most}",
            self.from
        );
        Reading { sql, parameters }
    }

    /// What reads on after a place. Texts have this letter between date and time.
    pub(super) fn after(
        &self,
        place: &Place,
        read: Read,
        separator: u8,
        upper: Option<&str>,
        most: usize,
    ) -> Reading {
        match place {
            Place::Beginning => self.reading(read, Lower::None, upper, most),
            Place::Since(at) if *at <= EARLIEST => self.reading(read, Lower::None, upper, most),
            // By the day alone: texts of another form are told, not left out.
            Place::Since(at) if self.kind == Kind::Text => {
                self.reading(read, Lower::From(&least_text(*at, None)), upper, most)
            }
            Place::Since(at) => {
                self.reading(read, Lower::From(&self.kind.least(*at, separator)), upper, most)
            }
            Place::Row(row) => self.reading(read, Lower::After(&row.raw, &row.tie), upper, most),
        }
    }

    /// What finds rows of a place's moment that the order cannot tell from its row: the same key, or none.
    pub(super) fn indistinct(&self) -> String {
        let (at, cast) = (self.at(), &self.changed_at.cast);
        let columns = self.tie_columns();
        let marks = self.tie.iter().zip(2..).map(|(tie, n)| format!("${n}::text::{}", tie.cast));
        let same: Vec<String> =
            columns.iter().zip(marks).map(|(tie, mark)| format!("{tie} = {mark}")).collect();
        let null: Vec<String> = columns.iter().map(|tie| format!("{tie} is null")).collect();
        let null = null.join(" or ");
        format!(
            "select ({null}) from {} as {ROW} where {at} = $1::text::{cast} and (({}) or {null}) limit 2",
            self.from,
            same.join(" and ")
        )
    }

    /// What reads the rows with these ties, given as one list for each of its columns, from a moment on.
    pub(super) fn with_ties(&self) -> String {
        let (at, cast, list) = (self.at(), &self.changed_at.cast, self.selected(Read::Rows));
        let lists: Vec<String> = (2..).take(self.tie.len()).map(|n| format!("${n}::text[]")).collect();
        let names: Vec<String> = (0..self.tie.len()).map(|n| format!("t{n}")).collect();
        let equal = |(index, column): (usize, &String)| {
            format!("{column} = wanted.t{index}::{}", self.tie[index].cast)
        };
        let same: Vec<String> = self.tie_columns().iter().enumerate().map(equal).collect();
        format!(
            "select {list} from {} as {ROW} join unnest({}) as wanted ({}) on {} where {at} >= $1::text::{cast}",
            self.from,
            lists.join(", "),
            names.join(", "),
            same.join(" and ")
        )
    }

    /// What reads the places of rows from a moment on, the latest first.
    pub(super) fn latest(&self, most: usize) -> String {
        let (at, cast, list) = (self.at(), &self.changed_at.cast, self.selected(Read::Places));
        format!(
            "select {list} from {} as {ROW} where {at} >= $1::text::{cast} order by {at} desc limit {most}",
            self.from
        )
    }

    /// The index without which every look reads all rows.
    pub(super) fn index(&self, settings: &Settings) -> String {
        let tie = self.tie.iter().filter(|tie| tie.name != self.changed_at.name);
        let columns: Vec<String> =
            std::iter::once(&self.changed_at).chain(tie).map(|column| quoted(&column.name)).collect();
        match settings.from {
            From::Table => format!("create index concurrently on {} ({})", self.from, columns.join(", ")),
            From::Query(_) => format!("make an index on what the query has as {}", settings.changed_at),
        }
    }
}

/// The settings' filter, if they have one.
async fn sieve(
    transaction: &Transaction<'_>,
    settings: &Settings,
    from: &str,
) -> Result<Option<RowFilter>, Fault> {
    let Some(text) = &settings.filter else { return Ok(None) };
    let table = TableName::parse(&settings.names.table).filter(|_| matches!(settings.from, From::Table));
    let alias = table.map_or_else(|| "query".to_owned(), |name| name.folded().unwrap_or(name).table);
    let sieve = RowFilter::on_rows(text, &alias, &settings.names)?;
    sieve.check_on(transaction, &format!("{from} as {}", quoted(&alias)), &settings.names).await?;
    Ok(Some(sieve))
}

async fn of_table(transaction: &Transaction<'_>, settings: &Settings) -> Result<Source, Fault> {
    let names = &settings.names;
    let Some(oid) = table::find(transaction, names).await? else {
        return Err(table::not_found(transaction, names).await?.into());
    };
    let row = transaction.query_one(TABLE, &[&oid]).await?;
    let (schema, name, role): (String, String, String) = (row.get(0), row.get(1), row.get(4));
    let (schema, role) = (quoted(&schema), quoted(&role));
    let from = format!("{schema}.{}", quoted(&name));
    if !row.get::<_, bool>(2) {
        return Err(names.missing_grant(&role, &format!("grant usage on schema {schema} to {role}")).into());
    }
    if !row.get::<_, bool>(3) {
        return Err(names.missing_grant(&role, &format!("grant select on {from} to {role}")).into());
    }
    Ok((from, row.get(5), Some((oid, row.get(6)))))
}
