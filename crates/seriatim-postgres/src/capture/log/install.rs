//! Puts a log into the database, registers consumers, and takes it out again.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use seriatim::change::Position;
use seriatim::source::{Consumer, Installed, SourceError, Start};
use tokio_postgres::error::SqlState;

use super::books::{COMPONENT, State, consumer_name, fill, head, place};
use super::place::{Place, Rows};
use crate::capture::error::Fault;
use crate::capture::kind::Writer;
use crate::capture::kind::{Base, Wrong};
use crate::capture::names::{literal, quoted};
use crate::capture::patience::in_the_way;
use crate::capture::registry::{self, Known, Registration};
use crate::capture::table::Table;
use crate::database::Client;
use crate::migrate;
use seriatim::backend::Kind;

const SUCCEED: &str = include_str!("../../../queries/log_succeed.sql");
const SINCE: &str = include_str!("../../../queries/log_since.sql");
const PATIENCE: &str = include_str!("../../../queries/lock_patience.sql");
const TURN_PATIENCE: &str = include_str!("../../../queries/turn_patience.sql");
const INIT: &str = include_str!("../../../queries/log_init.sql");
const BY_PROGRAM: &str = include_str!("../../../queries/log_by_program.sql");
const REMAINS: &str = include_str!("../../../queries/relation_remains.sql");
const DROP: &str = include_str!("../../../queries/log_drop.sql");
const DROP_UNUSED: &str = include_str!("../../../queries/log_drop_unused.sql");
const TURN: &str = include_str!("../../../queries/log_turn.sql");
const POSITIONS: &str = include_str!("../../../queries/log_consumer_positions.sql");
const MOVED: &str = include_str!("../../../queries/log_consumer_moved.sql");
const DELETE: &str = include_str!("../../../queries/log_consumer_delete.sql");
const FORGET: &str = include_str!("../../../queries/log_forget.sql");
const REGISTER: &str = include_str!("../../../queries/log_register.sql");
const NOW: &str = include_str!("../../../queries/time_now_number.sql");
const PROBLEMS: &str = include_str!("../../../queries/log_problems.sql");
const FAULTS: &str = include_str!("../../../queries/log_faults.sql");
const HAS_FAULTS: &str = include_str!("../../../queries/log_has_faults.sql");
const NEW_PARTITIONS: &str = include_str!("../../../queries/log_new_partitions.sql");
const INIT_PARTITIONS: &str = include_str!("../../../queries/log_init_partitions.sql");
const HIDES_ROWS: &str = include_str!("../../../queries/table_hides_rows.sql");
const REBIND: &str = include_str!("../../../queries/capture_rebind.sql");
const REPAIR: &str = include_str!("../../../queries/log_repair.sql");

/// The table that was asked for, and the numbers of its key's columns.
pub(super) async fn asked_for(client: &impl GenericClient, base: &Base) -> Result<(Table, Vec<i16>), Fault> {
    let names = &base.settings.names;
    let table = Table::inspect(client, names).await?;
    let key = table.key(base.settings.key.as_deref(), names)?;
    // Columns that contain a unique key name one row too, but the log needs a constraint over just these.
    let exactly =
        |unique: &Vec<i16>| unique.len() == key.len() && unique.iter().all(|column| key.contains(column));
    if table.primary != key && !table.uniques.iter().any(exactly) {
        return Err(names.key_not_unique(&key_names(&table, &key).join(", ")).into());
    }
    Ok((table, key))
}

fn key_names(table: &Table, key: &[i16]) -> Vec<String> {
    key.iter().filter_map(|number| table.column(*number)).map(|column| column.name.clone()).collect()
}

/// Whether the table can be watched and is.
pub(super) async fn check(base: &Base) -> Result<Installed, Fault> {
    let client = base.database.client().await?;
    let (table, _) = asked_for(&client, base).await?;
    refuse_hidden(&client, base, table.oid).await?;
    let Some(state) = State::of(&client, base, table.oid).await? else { return Ok(Installed::NotYet) };
    refuse_unfit(base, &state)?;
    refuse_problems(&client, base, table.oid).await?;
    Ok(Installed::Installed)
}

/// The SQL that opening the feed would execute.
pub(super) async fn script(base: &Base) -> Result<String, Fault> {
    let client = base.database.client().await?;
    let (table, key) = asked_for(&client, base).await?;
    let mut script = migrate::script(&base.database, &registry::COMPONENT).await?;
    script += &migrate::script(&base.database, &COMPONENT).await?.replace(&created(base), "");
    if State::of(&client, base, table.oid).await?.is_none() {
        script += &init(base, &table, &key);
        script += ";\n";
    }
    Ok(script)
}

/// Two components, one schema: it is made once.
fn created(base: &Base) -> String {
    format!("create schema {};\n", base.database.schema())
}

fn init(base: &Base, table: &Table, key: &[i16]) -> String {
    let names: Vec<String> = key_names(table, key).iter().map(|name| literal(name)).collect();
    // The last one first: names may look like anything.
    let init = base.database.sql(INIT.trim_end());
    init.replacen("{key}", &names.join(", "), 1).replacen("{table}", &literal(&table.quoted()), 1)
}

/// Opens the feed: installs what is missing and registers the consumer.
pub(super) async fn open(
    base: &Base,
    consumer: &Consumer,
    start: &Start,
    wrong: Wrong,
) -> Result<Position, Fault> {
    migrate::migrate(&base.database, &registry::COMPONENT).await?;
    migrate::migrate(&base.database, &COMPONENT).await?;
    let mut client = base.database.client().await?;
    let transaction = client.transaction().await?;
    let (table, key) = asked_for(&transaction, base).await?;
    refuse_hidden(&transaction, base, table.oid).await?;
    alone(&transaction, table.oid).await?;
    let found = State::of(&transaction, base, table.oid).await?;
    let mut registration = registry::registration(&transaction, &base.database, consumer).await?;
    match (&registration, found.as_ref().filter(|state| state.is_restored())) {
        (_, Some(state)) if wrong == Wrong::Refuse => state.refuse_broken(base)?,
        (Some(known), Some(_)) => {
            transaction.execute(&*base.database.sql(REBIND), &[&known.capture, &table.oid, &key]).await?;
        }
        (Some(known), None) => refuse_namesake(&transaction, base, known, table.oid).await?,
        (None, _) => {}
    }
    let before = match &registration {
        Some(known) if wrong == Wrong::Repair => {
            Before::of(&transaction, base, known, table.oid, found.is_some()).await?
        }
        _ => None,
    };
    if before.is_some() {
        registration = None;
    }
    if found.is_none() && registration.is_none() {
        let made = transaction.query(&*init(base, &table, &key), &[]).await;
        made.map_err(|cause| refused(base, cause))?;
        transaction.execute(&*base.database.sql(BY_PROGRAM), &[&table.oid]).await?;
        if let Some(before) = before {
            let succeed = base.database.sql(SUCCEED);
            transaction.execute(&*succeed, &[&table.oid, &before.head]).await?;
        }
    }
    put_in_order(&transaction, base, &table, &key, wrong).await?;
    let position = match registration {
        Some(registration) => {
            let entry = registry::entry_by_id(
                &transaction,
                &base.database,
                registration.capture,
                &base.settings.names,
            )
            .await?;
            if entry.is_none_or(|entry| entry.relation != table.oid || entry.key != key) {
                return Err(base.settings.names.registered_elsewhere().into());
            }
            registration.start
        }
        None => register(&transaction, base, consumer, start, &table, &key).await?,
    };
    transaction.commit().await?;
    Ok(position)
}

/// Refuses a log that is not as the settings want it, or mends what is wrong with it.
async fn put_in_order(
    transaction: &Transaction<'_>,
    base: &Base,
    table: &Table,
    key: &[i16],
    wrong: Wrong,
) -> Result<(), Fault> {
    let there = async || {
        let state = State::of(transaction, base, table.oid).await?;
        state.ok_or_else(|| Fault::from(base.settings.names.triggers_gone()))
    };
    refuse_unfit(base, &there().await?)?;
    match wrong {
        Wrong::Refuse => {
            guard_partitions(transaction, base, table.oid).await?;
            refuse_problems(transaction, base, table.oid).await?;
        }
        Wrong::Repair => repair(transaction, base, table.oid).await?,
    }
    // By now its columns have the numbers that they have in the table, also after a restore.
    let known = there().await?.key;
    if known.iter().any(|column| !key.contains(column)) || known.len() != key.len() {
        return Err(base.settings.names.registered_elsewhere().into());
    }
    Ok(())
}

/// Refuses a table that has the name of the one that the consumer is registered with, while that one is still there.
async fn refuse_namesake(
    transaction: &Transaction<'_>,
    base: &Base,
    known: &Registration,
    table: u32,
) -> Result<(), Fault> {
    let names = &base.settings.names;
    let entry = registry::entry_by_id(transaction, &base.database, known.capture, names).await?;
    let Some(former) = entry.map(|entry| entry.relation).filter(|former| *former != table) else {
        return Ok(());
    };
    match Table::read(transaction, former, names).await? {
        Some(former) => former.refuse_namesake(transaction, names).await,
        None => Ok(()),
    }
}

/// The log that a consumer was registered with and that is not there any more, or whose table is not.
struct Before {
    /// The last number that it gave, if that is still known.
    head: Option<i64>,
}

impl Before {
    /// Strikes out what is left of the former log, when its table was dropped and made anew. `None` when it is there.
    async fn of(
        transaction: &Transaction<'_>,
        base: &Base,
        known: &Registration,
        table: u32,
        has_log: bool,
    ) -> Result<Option<Self>, Fault> {
        let database = &base.database;
        let entry = registry::entry_by_id(transaction, database, known.capture, &base.settings.names).await?;
        let Some(former) = entry.map(|entry| entry.relation) else { return Ok(None) };
        if former == table {
            return Ok((!has_log).then_some(Before { head: None }));
        }
        if transaction.query_one(REMAINS, &[&former]).await?.get(0) {
            return Ok(None);
        }
        let mut head = None;
        if State::of(transaction, base, former).await?.is_some() {
            head = Some(self::head(transaction, base, former).await?);
            transaction.execute(&*database.sql(DROP), &[&former]).await?;
        }
        Ok(Some(Before { head }))
    }
}

/// Two processes that open or close feeds of one table take turns. Afterwards, waits for other locks are short.
async fn alone(client: &impl GenericClient, table: u32) -> Result<(), Fault> {
    client.batch_execute(TURN_PATIENCE).await?;
    client.query(TURN, &[&table]).await?;
    Ok(client.batch_execute(PATIENCE).await?)
}

/// What the functions of a log refuse, they refuse with a sentence and a hint.
fn refused(base: &Base, cause: tokio_postgres::Error) -> Fault {
    match cause.as_db_error().filter(|error| *error.code() == SqlState::RAISE_EXCEPTION) {
        None => cause.into(),
        Some(error) => {
            let what = format!("feed {}: {}", base.settings.names.feed, error.message());
            SourceError::needs_attention(what, error.hint().unwrap_or("see docs/postgres-log.md")).into()
        }
    }
}

/// Where the partitions of a consumer are, as far as they said.
async fn positions(
    transaction: &Transaction<'_>,
    base: &Base,
    table: u32,
    name: &str,
) -> Result<Vec<i64>, Fault> {
    let row = transaction.query_opt(&*base.database.sql(POSITIONS), &[&table, &name]).await?;
    Ok(row.map(|row| row.get(0)).unwrap_or_default())
}

/// Registers the consumer, anew if it was registered before, and returns where it begins.
pub(super) async fn register(
    transaction: &Transaction<'_>,
    base: &Base,
    consumer: &Consumer,
    start: &Start,
    table: &Table,
    key: &[i16],
) -> Result<Position, Fault> {
    let (database, names) = (&base.database, &base.settings.names);
    let name = consumer_name(consumer);
    let behind = positions(transaction, base, table.oid, &name).await?;
    transaction.execute(&*database.sql(FORGET), &[&table.oid, &name]).await?;
    let rows = *start == Start::Beginning;
    let sql = database.sql(REGISTER);
    let mut number: i64 = transaction.query_one(&*sql, &[&table.oid, &name, &rows]).await?.get(0);
    let elsewhere = match start {
        Start::Time(time) => {
            since(transaction, base, table.oid, *time).await?.map(|first| (first - 1).min(number))
        }
        Start::Position(position) => Some(place(base, position)?.number),
        Start::Beginning | Start::Now => None,
    };
    if let Some(elsewhere) = elsewhere {
        number = elsewhere;
        // Only one partition may be meant: what others still need is kept until they say where they are.
        let behind = if matches!(start, Start::Position(_)) { behind } else { Vec::new() };
        transaction.execute(&*database.sql(MOVED), &[&table.oid, &name, &number, &behind]).await?;
    }
    let capture =
        match registry::entry(transaction, database, (Kind::Log, Writer::Triggers), table.oid, key, names)
            .await?
        {
            Some(entry) => entry.id,
            None => {
                let known = Known::of(table, key, None).unwrap_or_default();
                registry::insert(transaction, database, (Kind::Log, Writer::Triggers), table.oid, key, &known)
                    .await?
            }
        };
    let state = State::of(transaction, base, table.oid).await?.ok_or_else(|| names.not_installed())?;
    let wanted = if let Start::Position(position) = start {
        let asked = place(base, position)?;
        state.refuse_place(base, asked, head(transaction, base, table.oid).await?)?;
        asked.rows
    } else if rows {
        Rows::Wanted { repairs: state.repairs }
    } else {
        Rows::PassedOver
    };
    let position = Place { number, rows: wanted }.position();
    let id = registry::register(transaction, database, capture, consumer, number, state.to_list).await?;
    registry::begins(transaction, database, id, &position).await?;
    Ok(position)
}

/// The first number of what changed at that moment or later.
async fn since(
    client: &impl GenericClient,
    base: &Base,
    table: u32,
    time: Timestamp,
) -> Result<Option<i64>, Fault> {
    let row = client.query_one(NOW, &[]).await?;
    let now = registry::time(row.get(0));
    if time > now {
        return Err(base.settings.names.in_the_future(time, now).into());
    }
    let sql = fill(client, base, table, SINCE).await?;
    Ok(client.query_one(&sql, &[&time.as_microsecond()]).await?.get(0))
}

/// Forgets the consumer, and takes the log out after its last one, if this program made it.
pub(super) async fn close(base: &Base, consumer: &Consumer) -> Result<(), Fault> {
    let database = &base.database;
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let Some(registration) = registry::registration(&transaction, database, consumer).await? else {
        return Ok(());
    };
    let entry =
        registry::entry_by_id(&transaction, database, registration.capture, &base.settings.names).await?;
    if let Some(entry) = &entry {
        alone(&transaction, entry.relation).await?;
    }
    let left = registry::forget(&transaction, database, registration.capture, consumer).await?;
    if let Some(entry) = entry {
        transaction.execute(&*database.sql(DELETE), &[&entry.relation, &consumer_name(consumer)]).await?;
        if left == 0 {
            transaction.execute(&*database.sql(DROP_UNUSED), &[&entry.relation]).await?;
            registry::delete(&transaction, database, entry.id).await?;
        }
    }
    Ok(transaction.commit().await?)
}

/// The position after the last change, for whoever only wants to look on.
pub(super) async fn tail_start(base: &Base) -> Result<Position, Fault> {
    let client = base.database.client().await?;
    let (table, _) = asked_for(&client, base).await?;
    if State::of(&client, base, table.oid).await?.is_none() {
        return Err(base.settings.names.not_installed().into());
    }
    let number = head(&client, base, table.oid).await?;
    Ok(Place { number, rows: Rows::PassedOver }.position())
}

/// Refuses a log that cannot give what was asked for.
fn refuse_unfit(base: &Base, state: &State) -> Result<(), SourceError> {
    if base.settings.deletes && !state.deletes {
        let feed = &base.settings.names.feed;
        let schema = base.database.schema();
        let what = format!("feed {feed}: the log {schema}.{} does not note deletes", quoted(&state.name));
        let remedy = match state.foreign_key {
            true => "drop it and make it without a foreign key, or set deletes = false".to_owned(),
            false => format!(
                "run: select {schema}.log_init_delete_trigger({})",
                literal(&base.settings.names.table)
            ),
        };
        return Err(SourceError::needs_attention(what, remedy));
    }
    Ok(())
}

async fn problems(client: &impl GenericClient, base: &Base, table: u32) -> Result<Vec<String>, Fault> {
    // A check does not bring a database of before up to date.
    let by_now = client.query_one(&*base.database.sql(HAS_FAULTS), &[]).await?.get(0);
    let sql = base.database.sql(if by_now { FAULTS } else { PROBLEMS });
    Ok(client.query(&*sql, &[&table]).await?.iter().map(|row| row.get(0)).collect())
}

pub(super) async fn refuse_problems(
    client: &impl GenericClient,
    base: &Base,
    table: u32,
) -> Result<(), Fault> {
    refuse_hidden(client, base, table).await?;
    match problems(client, base, table).await?.is_empty() {
        true => Ok(()),
        false => Err(base.settings.names.triggers_gone().into()),
    }
}

/// Refuses a table whose rows this role may not see: they would be taken for deleted.
async fn refuse_hidden(client: &impl GenericClient, base: &Base, table: u32) -> Result<(), Fault> {
    match client.query_one(HIDES_ROWS, &[&table]).await?.get(0) {
        true => Err(base.settings.names.rows_hidden_from_log().into()),
        false => Ok(()),
    }
}

/// Whether all partitions have the log's triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    All,
    /// Writers are in the way.
    NotYet,
}

/// Looks whether all is as the log needs it. A partition that is new gets the triggers that it lacks, as soon as its writers let it.
pub(super) async fn look_after(client: &mut Client, base: &Base, table: u32) -> Result<Guarded, Fault> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(PATIENCE).await?;
    let guarded = match guard_partitions(&transaction, base, table).await {
        Err(fault) if in_the_way(&fault) => {
            tracing::info!(table = %base.settings.names.table, "a new partition is in use: TRUNCATE of it is not noted yet");
            transaction.rollback().await?;
            Guarded::NotYet
        }
        guarded => {
            guarded?;
            transaction.commit().await?;
            Guarded::All
        }
    };
    refuse_problems(&*client, base, table).await?;
    Ok(guarded)
}

async fn guard_partitions(client: &impl GenericClient, base: &Base, table: u32) -> Result<(), Fault> {
    let found = client.query_one(&*base.database.sql(NEW_PARTITIONS), &[&table]).await?;
    if let Some(partition) = found.get::<_, Option<String>>(1) {
        let grant = format!("grant trigger on {partition} to current_user");
        return Err(base.settings.names.missing_grant("of this feed", &grant).into());
    }
    if found.get(0) {
        client.query_one(&*base.database.sql(INIT_PARTITIONS), &[&table]).await?;
    }
    Ok(())
}

async fn repair(client: &impl GenericClient, base: &Base, table: u32) -> Result<(), Fault> {
    refuse_hidden(client, base, table).await?;
    if !problems(client, base, table).await?.is_empty() {
        let mended = client.execute(&*base.database.sql(REPAIR), &[&table]).await;
        mended.map_err(|cause| refused(base, cause))?;
    }
    Ok(())
}
