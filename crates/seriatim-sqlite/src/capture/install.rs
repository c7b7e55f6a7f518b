//! Puts a capture into the user's file, brings it up to date, and takes it out again.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::Fault;
use super::journal::flight::Flight;
use super::names::{Edition, Objects};
use super::registry::{self, COMPONENT};
use super::settings::Settings;
use super::sql::literal;
use super::table::Table;
use super::watched::{Suspect, Watched, checked_key};
use super::{journal, log};
use crate::migrate;
use seriatim::backend::Kind;

const DELETE: &str = include_str!("../../queries/capture_delete.sql");
const COUNT: &str = include_str!("../../queries/capture_count.sql");

/// A transaction that may write from its first statement on.
pub(super) fn write(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// The SQL that installing would execute, for a person to read or to run with the `sqlite3` shell.
pub(super) fn script(connection: &Connection, settings: &Settings) -> Result<String, Fault> {
    if Watched::by_settings(connection, settings)?.is_some() {
        return Ok(format!("-- {:?} is watched already: nothing to do.\n", settings.names.table));
    }
    let plan = Plan::new(connection, settings)?;
    let books = migrate::script(connection, &COMPONENT)?;
    Ok(format!("begin immediate;\n{books}{}commit;\n", plan.sql()))
}

/// Installs the capture unless it is there. The books must exist.
pub(super) fn install(transaction: &Transaction<'_>, settings: &Settings) -> Result<Watched, Fault> {
    if let Some(watched) = Watched::by_settings(transaction, settings)? {
        return Ok(watched);
    }
    let plan = Plan::new(transaction, settings)?;
    plan.execute(transaction)?;
    installed(transaction, plan.objects.capture, settings)
}

/// Puts the triggers of a capture back on a table that was made anew.
///
/// What changed meanwhile is not recorded, so no position from before counts any more: it would be a silent gap.
pub(super) fn reinstall(
    transaction: &Transaction<'_>,
    objects: Objects,
    settings: &Settings,
) -> Result<Watched, Fault> {
    let base = registry::head(transaction, objects)? + 1;
    let remove = objects.drop_triggers() + &objects.drop_tables();
    transaction.execute_batch(&remove)?;
    transaction.execute(DELETE, [objects.capture])?;
    let plan = Plan { objects, base, ..Plan::new(transaction, settings)? };
    plan.execute(transaction)?;
    installed(transaction, objects.capture, settings)
}

/// Brings triggers up to date unless what they noted since they were last known to be right may be wrong.
///
/// `verified` is the head at which this process last found them right. Without one, what every consumer has handled counts.
pub(super) fn learn(
    transaction: &Transaction<'_>,
    watched: &Watched,
    settings: &Settings,
    verified: Option<i64>,
) -> Result<(), Fault> {
    if let Some(suspect) = &watched.suspect {
        let no_trace = matches!(suspect, Suspect::CutOff(_));
        if no_trace || !registry::nothing_since(transaction, watched.objects, verified)? {
            let names = settings.names.with_table(&watched.table.name);
            return Err(names.overtaken(suspect).into());
        }
        tracing::info!(
            feed = %settings.names.feed,
            table = %watched.table.name,
            made = ?suspect,
            "the triggers are made anew: nothing was written in the meantime"
        );
    }
    bring_up_to_date(transaction, watched, settings)
}

/// Teaches the triggers what they do not know of their table, and makes them the newest.
pub(super) fn bring_up_to_date(
    transaction: &Transaction<'_>,
    watched: &Watched,
    settings: &Settings,
) -> Result<(), Fault> {
    let (objects, table) = (watched.objects, &watched.table);
    let (known, all) = (watched.columns.len(), table.columns.len());
    settle(transaction, watched)?;
    let head = registry::head(transaction, objects)?;
    let mut sql = objects.drop_triggers();
    if objects.kind == Kind::Journal && all > known {
        sql += &journal::triggers::add_slots(&objects, known, all);
    }
    sql += &objects.drop_aside();
    sql += &aside(&objects, table, &watched.key);
    sql += &triggers(&objects, table, &watched.key);
    transaction.execute_batch(&sql)?;
    let learnt = include_str!("../../queries/capture_learnt.sql");
    transaction.execute(learnt, (objects.capture, serde_json::json!(table.known()).to_string()))?;
    if all > known {
        transaction.execute(
            include_str!("../../queries/capture_add_shape.sql"),
            (objects.capture, head, all as i64),
        )?;
        let columns = watched.unknown_columns().join(", ");
        tracing::warn!(
            feed = %settings.names.feed,
            table = %table.name,
            %columns,
            after = head,
            "the table has new columns: changes after this id have them"
        );
    }
    prove(transaction, table)
}

/// Whether statements that were ignored or failed half-way left something to settle.
pub(super) fn left_over(connection: &Connection, watched: &Watched) -> rusqlite::Result<bool> {
    if watched.edition < Edition::FOURTH {
        return Ok(false);
    }
    let objects = &watched.objects;
    let left = match objects.kind {
        Kind::Journal => Flight::new(objects, &watched.table, &watched.key).under_way(),
        Kind::Log => log::triggers::left_over(objects, &watched.table),
    };
    connection.prepare_cached(&format!("select {left}"))?.query_row([], |row| row.get(0))
}

/// Tells what statements left that were ignored or failed half-way. None is running while we can write.
pub(super) fn settle(transaction: &Transaction<'_>, watched: &Watched) -> rusqlite::Result<()> {
    if !left_over(transaction, watched)? {
        return Ok(());
    }
    let mut table = watched.table.clone();
    table.columns.truncate(watched.columns.len());
    let (objects, key) = (&watched.objects, &watched.key);
    transaction.execute_batch(&match objects.kind {
        Kind::Journal => Flight::new(objects, &table, key).settle(),
        Kind::Log => log::triggers::settle(objects, &table, key),
    })
}

/// Takes a capture out of the file, and the books too when it was the last one.
pub(super) fn remove(transaction: &Transaction<'_>, objects: Objects) -> rusqlite::Result<()> {
    let drawn = registry::head(transaction, objects)?.max(registry::drawn_before(transaction)?);
    transaction.execute_batch(&(objects.drop_triggers() + &objects.drop_tables()))?;
    transaction.execute(include_str!("../../queries/ids_drawn_forget.sql"), [drawn])?;
    transaction.execute(include_str!("../../queries/ids_drawn_note.sql"), [drawn])?;
    transaction.execute(DELETE, [objects.capture])?;
    let left: i64 = transaction.query_row(COUNT, [], |row| row.get(0))?;
    if left == 0 {
        transaction.execute_batch("drop table seriatim_consumer; drop table seriatim_capture;")?;
        migrate::forget(transaction, &COMPONENT)?;
    }
    Ok(())
}

fn installed(transaction: &Transaction<'_>, capture: i64, settings: &Settings) -> Result<Watched, Fault> {
    let watched = Watched::by_id(transaction, capture, &settings.names)?;
    watched.ok_or_else(|| settings.names.not_installed().into())
}

/// The table of rows put aside.
fn aside(objects: &Objects, table: &Table, key: &[usize]) -> String {
    match objects.kind {
        Kind::Journal => Flight::new(objects, table, key).create(),
        Kind::Log => log::triggers::create_aside(objects, table, key),
    }
}

fn triggers(objects: &Objects, table: &Table, key: &[usize]) -> String {
    match objects.kind {
        Kind::Journal => journal::triggers::create_triggers(objects, table, key),
        Kind::Log => log::triggers::create_triggers(objects, table, key),
    }
}

/// A trigger is only compiled when it first fires, which must not be in the user's hands: compile all of them now.
fn prove(connection: &Connection, table: &Table) -> Result<(), Fault> {
    let name = table.quoted();
    let column = table.column(table.primary[0].slot);
    connection.prepare(&format!("insert into {name} default values"))?;
    connection.prepare(&format!("update {name} set {column} = {column}"))?;
    connection.prepare(&format!("delete from {name}"))?;
    Ok(())
}

/// What is to be installed.
struct Plan {
    objects: Objects,
    table: Table,
    key: Vec<usize>,
    /// Numbers up to this were drawn by a capture of the same name before.
    base: i64,
}

impl Plan {
    fn new(connection: &Connection, settings: &Settings) -> Result<Self, Fault> {
        let table = Table::inspect(connection, &settings.names)?;
        let key = checked_key(&table, settings)?;
        let objects = Objects { kind: settings.kind, capture: registry::next_capture(connection)? };
        Ok(Plan { objects, table, key, base: registry::drawn_before(connection)? })
    }

    fn execute(&self, transaction: &Transaction<'_>) -> Result<(), Fault> {
        transaction.execute_batch(&self.sql())?;
        prove(transaction, &self.table)
    }

    fn sql(&self) -> String {
        [self.enter(), self.tables(), self.draw_numbers(), triggers(&self.objects, &self.table, &self.key)]
            .concat()
    }

    fn enter(&self) -> String {
        let key = serde_json::json!(self.key).to_string();
        let known = serde_json::json!(self.table.known()).to_string();
        let shapes = serde_json::json!([(0, self.table.columns.len())]).to_string();
        format!(
            "insert into seriatim_capture (id, kind, table_name, key_slots, shapes, known, floor, pruned)\n\
             values ({}, {}, {}, {}, {}, {}, {base}, {base});\n",
            self.objects.capture,
            literal(self.objects.kind.as_str()),
            literal(&self.table.name),
            literal(&key),
            literal(&shapes),
            literal(&known),
            base = self.base,
        )
    }

    fn tables(&self) -> String {
        let changes = match self.objects.kind {
            Kind::Journal => journal::triggers::create_table(&self.objects, self.table.columns.len()),
            Kind::Log => log::triggers::create_table(&self.objects, &self.key),
        };
        format!("{changes}\n{}\n", aside(&self.objects, &self.table, &self.key))
    }

    /// A log keeps numbers for the rows that exist already, so every change has a number above theirs. In a journal,
    /// every consumer that reads them draws numbers of its own for them.
    fn draw_numbers(&self) -> String {
        let (changes, table, base) = (literal(&self.objects.changes()), self.table.quoted(), self.base);
        match self.objects.kind {
            Kind::Journal => {
                format!("insert into sqlite_sequence (name, seq) values ({changes}, {base});\n")
            }
            Kind::Log => format!(
                "insert into sqlite_sequence (name, seq) select {changes}, {base} + count(*) from {table};\n\
                 update seriatim_capture set seeds = (select seq from sqlite_sequence where name = {changes}) where id = {};\n",
                self.objects.capture
            ),
        }
    }
}
