//! What the relay has read and not committed yet, and the connection that appends it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::super::append::{Journal, Parameters, WITHOUT_OLD};
use super::super::lsn::Lsn;
use super::super::message::{Malformed, Old, Relation, Tuple};
use super::super::rows::{Described, Known, Told};
use super::super::slot::{State, place};
use super::Ended;
use crate::capture::registry;
use crate::capture::shapes::Typed;
use crate::database::{Database, Dedicated};

const LOCK: &str = include_str!("../../../../queries/relay_lock.sql");
const MOVED: &str = include_str!("../../../../queries/relay_moved.sql");
const PASSED: &str = include_str!("../../../../queries/relay_passed.sql");
const JOURNALS: &str = include_str!("../../../../queries/relay_journals.sql");
const TYPES: &str = include_str!("../../../../queries/relay_types.sql");
const TICK: &str = include_str!("../../../../queries/journal_tick_those.sql");
const SHAPES: &str = include_str!("../../../../queries/shape_read.sql");
const SHAPE: &str = include_str!("../../../../queries/shape_note.sql");
const LAST_ID: &str = include_str!("../../../../queries/relay_last_id.sql");

/// What is kept in memory before it is appended: so many changes, or so many bytes.
const PIECE: (usize, usize) = (1_000, 1 << 20);

/// A connection that has prepared more statements than this forgets them all.
const STATEMENTS: usize = 256;

/// What is appended in one step.
enum Piece {
    Rows(Arc<Described>, Vec<Told>),
    Truncated(u32, i64),
}

/// A transaction of the log that is being read.
#[derive(Clone, Copy)]
struct Transaction {
    commit: Lsn,
    at: i64,
    /// It was appended before.
    known: bool,
}

/// What was read and is not committed yet.
pub(super) struct Writing<'a> {
    database: &'a Database,
    connection: Dedicated,
    epoch: i64,
    /// The commit of the last transaction that is appended, here or in the books.
    committed: Lsn,
    relations: HashMap<u32, Arc<Described>>,
    types: HashMap<u32, Known>,
    statements: HashMap<String, Statement>,
    transaction: Option<Transaction>,
    pieces: Vec<Piece>,
    weight: usize,
    count: usize,
    /// The end of the last transaction that is complete and has something to be committed.
    end: Option<Lsn>,
    /// The transaction that is being read has something.
    something: bool,
    /// The journals, while a transaction of theirs is open.
    open: Option<Vec<Journal>>,
    /// Those that were appended to in it.
    appended: Vec<i64>,
    /// The columns that each journal's newest images have, as far as is known.
    shapes: HashMap<i64, Arc<Described>>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(database: &'a Database, connection: Dedicated, epoch: i64, state: &State) -> Self {
        Writing {
            database,
            connection,
            epoch,
            committed: state.committed,
            relations: HashMap::new(),
            types: HashMap::new(),
            statements: HashMap::new(),
            transaction: None,
            pieces: Vec::new(),
            weight: 0,
            count: 0,
            end: None,
            something: false,
            open: None,
            appended: Vec::new(),
            shapes: HashMap::new(),
        }
    }

    /// A transaction of the log is being read.
    pub(super) fn is_inside(&self) -> bool {
        self.transaction.is_some()
    }

    /// There is something to be committed, and no transaction of the log is half read.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some() && !self.is_inside()
    }

    /// Nothing was read that is not committed.
    pub(super) fn is_empty(&self) -> bool {
        self.end.is_none() && !self.is_inside()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn begins(&mut self, commit: Lsn, at: i64) -> Result<(), Malformed> {
        if self.is_inside() {
            return Err(Malformed("a transaction begins inside of another one"));
        }
        self.something = false;
        self.transaction = Some(Transaction { commit, at, known: commit <= self.committed });
        Ok(())
    }

    /// The transaction is complete. Says whether it has something to be committed.
    pub(super) fn ends(&mut self, end: Lsn) -> bool {
        let Some(transaction) = self.transaction.take() else { return false };
        if !self.something || transaction.known {
            // Later than everything that waits to be committed: it goes with that.
            self.end = self.end.map(|_| end);
            return self.end.is_some();
        }
        self.committed = transaction.commit;
        self.end = Some(end);
        true
    }

    /// Somebody has put words into the log: where ours are, it is to be noted soon that they were read.
    pub(super) fn words(&mut self, ours: bool) {
        self.something |= ours && self.is_inside();
    }

    pub(super) async fn described(&mut self, relation: Relation) -> Result<(), Ended> {
        let unknown: Vec<u32> = relation
            .columns
            .iter()
            .map(|column| column.of)
            .filter(|of| !self.types.contains_key(of))
            .collect();
        if !unknown.is_empty() {
            for row in self.connection.client().query(TYPES, &[&unknown]).await? {
                let letter = |at: usize| row.get::<_, &str>(at).chars().next().unwrap_or(' ');
                let known =
                    Known { base: row.get(1), sort: letter(2), category: letter(3), name: row.get(4) };
                self.types.insert(row.get(0), known);
            }
        }
        let of = |of: u32| self.types.get(&of).cloned().unwrap_or_else(Known::gone);
        let types = relation.columns.iter().map(|column| of(column.of)).collect();
        self.relations.insert(relation.id, Arc::new(Described { relation, types }));
        Ok(())
    }

    pub(super) fn inserted(&mut self, relation: u32, new: Tuple) -> Result<(), Malformed> {
        self.row(relation, |described, at| described.inserted(new, at))
    }

    pub(super) fn updated(&mut self, relation: u32, old: Option<Old>, new: Tuple) -> Result<(), Malformed> {
        self.row(relation, |described, at| described.updated(old, new, at))
    }

    pub(super) fn deleted(&mut self, relation: u32, old: Old) -> Result<(), Malformed> {
        self.row(relation, |described, at| described.deleted(old, at))
    }

    pub(super) fn truncated(&mut self, relations: &[u32]) -> Result<(), Malformed> {
        let transaction = self.transaction.ok_or(OUTSIDE)?;
        if !transaction.known {
            self.something = true;
            self.pieces.extend(relations.iter().map(|relation| Piece::Truncated(*relation, transaction.at)));
            self.count += relations.len();
        }
        Ok(())
    }

    fn row(
        &mut self,
        relation: u32,
        tell: impl FnOnce(&Described, i64) -> Result<Told, Malformed>,
    ) -> Result<(), Malformed> {
        let transaction = self.transaction.ok_or(OUTSIDE)?;
        let described = self.relations.get(&relation).ok_or(Malformed("a table was not described"))?;
        if transaction.known {
            return Ok(());
        }
        let told = tell(described, transaction.at)?;
        self.something = true;
        self.weight += told.weight();
        self.count += 1;
        match self.pieces.last_mut() {
            Some(Piece::Rows(of, rows))
                if Arc::ptr_eq(of, described) && rows.last().is_some_and(|last| last.form == told.form) =>
            {
                rows.push(told);
            }
            _ => self.pieces.push(Piece::Rows(Arc::clone(described), vec![told])),
        }
        Ok(())
    }

    /// Appends what was read so far, where it is much. It is committed when the transaction is complete.
    pub(super) async fn append_if_large(&mut self) -> Result<(), Ended> {
        if self.weight >= PIECE.1 || self.pieces.len() >= PIECE.0 || self.count_in_memory() >= PIECE.0 {
            self.append().await?;
        }
        Ok(())
    }

    fn count_in_memory(&self) -> usize {
        match self.pieces.last() {
            Some(Piece::Rows(_, rows)) => rows.len(),
            _ => 0,
        }
    }

    async fn append(&mut self) -> Result<(), Ended> {
        let mut journals = match self.open.take() {
            Some(journals) => journals,
            None => self.begin().await?,
        };
        self.weight = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let relation = match &piece {
                Piece::Rows(described, _) => described.relation.id,
                Piece::Truncated(relation, _) => *relation,
            };
            for journal in journals.iter_mut().filter(|journal| journal.relation == relation) {
                match &piece {
                    Piece::Rows(described, told) => self.append_rows(journal, described, told).await?,
                    Piece::Truncated(_, at) => {
                        self.note(journal, 't', *at).await?;
                    }
                }
                if !self.appended.contains(&journal.id) {
                    self.appended.push(journal.id);
                }
            }
        }
        self.open = Some(journals);
        Ok(())
    }

    /// Begins a transaction of the journals: from here on, nobody else appends.
    async fn begin(&mut self) -> Result<Vec<Journal>, Ended> {
        let client = self.connection.client();
        client.batch_execute("begin").await?;
        let locked =
            client.query_opt(&*self.database.sql(LOCK), &[&self.epoch]).await?.ok_or(Ended::Replaced)?;
        // What this one has appended is what the books say: a reply that was lost ends a run.
        if place(locked.get(0)) > self.committed {
            return Err(Ended::Replaced);
        }
        let rows = client.query(&*self.database.sql(JOURNALS), &[]).await?;
        self.appended.clear();
        rows.iter()
            .map(|row| {
                let known: registry::Known = serde_json::from_str(row.get(3))
                    .map_err(|_| Malformed("the books are of a newer version"))?;
                Ok(Journal {
                    id: row.get(0),
                    relation: row.get(1),
                    ring: row.get(2),
                    known,
                    names: row.get(4),
                })
            })
            .collect()
    }

    async fn append_rows(
        &mut self,
        journal: &Journal,
        described: &Arc<Described>,
        told: &[Told],
    ) -> Result<(), Ended> {
        let Some(first) = told.first() else { return Ok(()) };
        if journal.lacks_old(described, &first.form) {
            self.note(journal, WITHOUT_OLD, first.at).await?;
        }
        self.note_shape(journal.id, described).await?;
        let gone = || Ended::Fault {
            epoch: self.epoch,
            fault: format!(
                "a key column of {}.{} is not in the server's log any more",
                described.relation.schema, described.relation.name
            ),
        };
        let sql = journal.append(described, &first.form).ok_or_else(gone)?;
        let statement = self.prepared(self.database.sql(&sql).into_owned()).await?;
        let parameters = Parameters::of(told);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&parameters.at];
        values.extend(parameters.texts.iter().map(|column| column as &(dyn ToSql + Sync)));
        self.connection.client().execute(&statement, &values).await?;
        Ok(())
    }

    async fn note(&mut self, journal: &Journal, op: char, at: i64) -> Result<(), Ended> {
        let statement = self.prepared(self.database.sql(&journal.note(op)).into_owned()).await?;
        self.connection.client().execute(&statement, &[&at]).await?;
        Ok(())
    }

    async fn prepared(&mut self, sql: String) -> Result<Statement, Ended> {
        if let Some(statement) = self.statements.get(&sql) {
            return Ok(statement.clone());
        }
        if self.statements.len() >= STATEMENTS {
            self.statements.clear();
        }
        let statement = self.connection.client().prepare(&sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Notes the columns of the images that follow, where they are others than before: readers need their types.
    async fn note_shape(&mut self, journal: i64, described: &Arc<Described>) -> Result<(), Ended> {
        if self.shapes.get(&journal).is_some_and(|known| Arc::ptr_eq(known, described)) {
            return Ok(());
        }
        let client = self.connection.client();
        let shapes = client.query(&*self.database.sql(SHAPES), &[&journal]).await?;
        let columns = described.relation.columns.iter().zip(&described.types).zip(1..);
        let typed = columns
            .map(|((column, of), number)| Typed::new(number, &column.name, (of.base, of.sort, of.category)));
        let columns = serde_json::to_string(&typed.collect::<Vec<_>>()).unwrap_or_default();
        if shapes.last().is_none_or(|last| last.get::<_, &str>(1) != columns) {
            let since: i64 = match shapes.is_empty() {
                true => 0,
                false => client.query_one(&*self.database.sql(LAST_ID), &[&journal]).await?.get(0),
            };
            let number = shapes.len() as i32;
            client.execute(&*self.database.sql(SHAPE), &[&journal, &number, &since, &columns]).await?;
        }
        self.shapes.insert(journal, Arc::clone(described));
        Ok(())
    }

    /// Commits everything that is complete, and has it ticked. Returns the place up to which the log is kept by that.
    pub(super) async fn finish(&mut self) -> Result<Option<Lsn>, Ended> {
        let Some(end) = self.end else { return Ok(None) };
        self.append().await?;
        self.open = None;
        let (committed, passed) = (self.committed.to_string(), end.to_string());
        let client = self.connection.client();
        if client.execute(&*self.database.sql(MOVED), &[&self.epoch, &committed, &passed]).await? == 0 {
            return Err(Ended::Replaced);
        }
        client.batch_execute("commit").await?;
        (self.end, self.count) = (None, 0);
        if !self.appended.is_empty() {
            let tick = self.prepared(self.database.sql(TICK).into_owned()).await?;
            self.connection.client().query_one(&tick, &[&self.appended]).await?;
        }
        Ok(Some(end))
    }

    /// Notes that everything up to here concerns no journal.
    pub(super) async fn note_passed(&mut self, passed: Lsn) -> Result<(), Ended> {
        let sql = self.database.sql(PASSED).into_owned();
        match self.connection.client().execute(&*sql, &[&self.epoch, &passed.to_string()]).await? {
            0 => Err(Ended::Replaced),
            _ => Ok(()),
        }
    }
}

const OUTSIDE: Malformed = Malformed("a change is outside of a transaction");
