//! Puts a journal into the database, registers consumers, and takes it out again.

use deadpool_postgres::GenericClient;
use seriatim::change::Position;
use seriatim::source::{Consumer, Start};

use super::super::error::Fault;
use super::super::kind::{Base, Writer, Wrong};
use super::super::registry::{self, Known, Registration};
use super::super::table::Table;
use super::super::wal::{self, install::Prepared};
use super::backfill;
use super::position::{Filling, Live, Place};
use super::triggers::Journal;
use super::watched::{Watched, note_made};
use crate::migrate::{self, migrate};
use seriatim::backend::Kind;

const PATIENCE: &str = include_str!("../../../queries/lock_patience.sql");
const TURN_PATIENCE: &str = include_str!("../../../queries/turn_patience.sql");
const LOCK: &str = include_str!("../../../queries/capture_turn.sql");
const NO_PRUNING: &str = include_str!("../../../queries/journal_no_pruning.sql");
const NEXT_ID: &str = include_str!("../../../queries/capture_next_id.sql");
const INSERT: &str = include_str!("../../../queries/capture_insert_script.sql");
const REBIND: &str = include_str!("../../../queries/capture_rebind.sql");
const TICK_NOW: &str = include_str!("../../../queries/journal_tick_now.sql");
const TICK_BEFORE: &str = include_str!("../../../queries/tick_before.sql");
const INVERTED_FORGET: &str = include_str!("../../../queries/journal_inverted_forget.sql");
const FILLING: &str = include_str!("../../../queries/consumer_filling.sql");
const JOURNALS: &str = include_str!("../../../queries/relay_journals.sql");
const FLOOR: &str = include_str!("../../../queries/capture_floor.sql");
const PART_EMPTIED: &str = include_str!("../../../queries/journal_part_emptied.sql");
const WATERMARK_NOTE: &str = include_str!("../../../queries/watermark_note.sql");
const WATERMARK_TAKE: &str = include_str!("../../../queries/watermark_take.sql");

/// How long a consumer that registers waits for the relay.
const RELAYED: std::time::Duration = std::time::Duration::from_secs(2);

/// The slot cannot be made in a script's transaction.
const FROM_THE_LOG: &str = "-- capture = \"wal\" makes a replication slot and a publication, and adds {table} to it; `seriatim watch` does so\n";

/// Opens the feed and returns where the consumer begins.
pub(super) async fn open(
    base: &Base,
    consumer: &Consumer,
    start: &Start,
    wrong: Wrong,
) -> Result<(i64, Position), Fault> {
    let mut client = base.database.client().await?;
    if let Some(registration) = registry::registration(&client, &base.database, consumer).await? {
        migrate(&base.database, &registry::COMPONENT).await?;
        let id = registration.capture;
        reopened(base, &mut client, &registration, wrong).await?;
        return Ok((id, registration.start));
    }
    // Refused before anything is written.
    Watched::by_settings(&client, base).await?;
    if base.writer == Writer::Relay {
        let table = Table::inspect(&client, &base.settings.names).await?;
        wal::install::check(&client, base, &table).await?;
    }
    migrate(&base.database, &registry::COMPONENT).await?;
    if base.writer == Writer::Relay {
        prepare_relay(base, &mut client, wrong).await?;
    }
    let id = install(base, &mut client).await?;
    Ok((id, register(base, &mut client, id, consumer, start, Registered::Stays).await?))
}

/// Makes the relay if it is not there. Where its slot had to be made anew, positions of before are refused in all journals.
async fn prepare_relay(base: &Base, client: &mut crate::database::Client, wrong: Wrong) -> Result<(), Fault> {
    let prepared = wal::install::prepare(base, client, wrong == Wrong::Repair).await?;
    if prepared == Prepared::MadeAnew {
        let journals = base.database.sql(JOURNALS);
        for row in client.query(&*journals, &[]).await? {
            refuse_what_is_before(base, &*client, row.get(0)).await?;
        }
    }
    Ok(())
}

/// The SQL that opening would execute.
pub(super) async fn script(base: &Base) -> Result<String, Fault> {
    let client = base.database.client().await?;
    let mut script = migrate::script(&base.database, &registry::COMPONENT).await?;
    match Watched::by_settings(&client, base).await? {
        Some(watched) if watched.triggers && !watched.is_outdated() => {}
        Some(_) if base.writer == Writer::Relay => return Ok(String::new()),
        Some(watched) => script += &base.database.sql(&watched.sql().make_anew()),
        None => {
            let names = &base.settings.names;
            let table = Table::inspect(&client, names).await?;
            let key = table.key(base.settings.key.as_deref(), names)?;
            let known = Known::of(&table, &key, None).ok_or_else(|| names.key_gone())?;
            let id = next_id(&client, base).await?;
            let list = key.iter().map(i16::to_string).collect::<Vec<_>>().join(",");
            let known_json = serde_json::to_string(&known).unwrap_or_default();
            if base.writer == Writer::Relay {
                wal::install::check(&client, base, &table).await?;
                return Ok(FROM_THE_LOG.replace("{table}", &table.quoted()));
            }
            let insert = INSERT
                .replace("{id}", &id.to_string())
                .replace("{relation}", &table.oid.to_string())
                .replace("{key}", &list)
                .replace("{writer}", base.writer.as_str())
                .replace("{known}", &super::super::names::literal(&known_json));
            let sql = Journal { id, table: &table, key: &key, known: &known, ring: 0 };
            let ids = WATERMARK_TAKE.replace("$1", &id.to_string()).replace("$2", &table.oid.to_string());
            script += &base.database.sql(&format!("{insert}{}{};\n", sql.install(), ids.trim_end()));
        }
    }
    Ok(format!("begin;\n{script}commit;\n"))
}

async fn next_id(client: &impl GenericClient, base: &Base) -> Result<i64, Fault> {
    if !registry::exists(client, &base.database).await? {
        return Ok(1);
    }
    let sql = base.database.sql(NEXT_ID);
    Ok(client.query_one(&*sql, &[]).await?.get(0))
}

/// A consumer that was here before: is everything still as it left it?
async fn reopened(
    base: &Base,
    client: &mut crate::database::Client,
    registration: &Registration,
    wrong: Wrong,
) -> Result<(), Fault> {
    let names = &base.settings.names;
    let entry = registry::entry_by_id(&*client, &base.database, registration.capture, names).await?;
    let entry = entry.ok_or_else(|| names.registered_elsewhere())?;
    if Table::read(&*client, entry.relation, names).await?.is_none() {
        return made_anew(base, client, registration.capture, wrong).await;
    }
    let watched = Watched::by_id(&*client, base, registration.capture).await?;
    let watched = watched.ok_or_else(|| names.registered_elsewhere())?;
    refuse_another_table(base, &*client, &watched).await?;
    let same_key = watched.table.key(base.settings.key.as_deref(), names)? == watched.entry.key;
    if entry.writer != base.writer {
        return Err(names.another_writer(capture_of(base.writer), capture_of(entry.writer)).into());
    }
    if base.settings.kind != Kind::Journal || !same_key {
        return Err(if base.settings.key.is_none() {
            names.key_gone()
        } else {
            names.registered_elsewhere()
        }
        .into());
    }
    if base.writer == Writer::Relay {
        wal::install::check(&*client, base, &watched.table).await?;
        prepare_relay(base, client, wrong).await?;
    }
    match wrong {
        _ if watched.triggers && !watched.is_outdated() => {}
        Wrong::Refuse if !watched.triggers => return Err(watched.lost(names).into()),
        _ => make_anew(base, client, registration.capture).await?,
    }
    match wrong {
        Wrong::Refuse => Ok(()),
        Wrong::Repair if base.writer == Writer::Relay => Ok(()),
        Wrong::Repair => pass_over_inverted(base, client, &watched).await,
    }
}

/// The word for the capture that has this writer.
fn capture_of(writer: Writer) -> &'static str {
    match writer {
        Writer::Triggers => "journal",
        Writer::Relay => "wal",
    }
}

/// Where statements were noted before those that they are inside of, nobody may read on: whoever stands before this moment is
/// refused, and reads all rows again. From then on rows are noted one by one.
async fn pass_over_inverted(
    base: &Base,
    client: &mut crate::database::Client,
    watched: &Watched,
) -> Result<(), Fault> {
    let id = watched.entry.id;
    let transaction = locked(base, client).await?;
    let forget = INVERTED_FORGET.replace("journal_N", &format!("journal_{id}"));
    let nested = transaction.execute(&*base.database.sql(&forget), &[&watched.table.oid]).await? > 0;
    if nested {
        refuse_what_is_before(base, &transaction, id).await?;
        let known = Known { seen_nesting: true, made: None, ..watched.entry.known.clone() };
        registry::note_known(&transaction, &base.database, id, &known).await?;
    }
    transaction.commit().await?;
    match nested {
        true => make_anew(base, client, id).await,
        false => Ok(()),
    }
}

/// The table is gone. One of the same name that was made since is watched instead, if that is wanted.
async fn made_anew(
    base: &Base,
    client: &mut crate::database::Client,
    capture: i64,
    wrong: Wrong,
) -> Result<(), Fault> {
    let names = &base.settings.names;
    let Ok(table) = Table::inspect(&*client, names).await else { return Err(names.table_gone().into()) };
    if wrong == Wrong::Refuse {
        return Err(names.triggers_gone().into());
    }
    let key = table.key(base.settings.key.as_deref(), names)?;
    client.execute(&*base.database.sql(REBIND), &[&capture, &table.oid, &key]).await?;
    make_anew(base, client, capture).await?;
    refuse_what_is_before(base, &*client, capture).await
}

/// Refuses a table that has another name by now: which one is meant is for the user to say.
async fn refuse_another_table(
    base: &Base,
    client: &impl GenericClient,
    watched: &Watched,
) -> Result<(), Fault> {
    let (names, table) = (&base.settings.names, &watched.table);
    table.refuse_namesake(client, names).await?;
    if table.is_called(&names.table) { Ok(()) } else { Err(names.renamed(&table.shown()).into()) }
}

async fn locked<'c>(
    base: &Base,
    client: &'c mut crate::database::Client,
) -> Result<deadpool_postgres::Transaction<'c>, Fault> {
    let transaction = client.transaction().await?;
    let lock = base.database.sql(LOCK);
    transaction.batch_execute(&format!("{TURN_PATIENCE};\n{lock};\n{PATIENCE}")).await?;
    Ok(transaction)
}

/// The capture's id; installs what is missing of it.
async fn install(base: &Base, client: &mut crate::database::Client) -> Result<i64, Fault> {
    let names = &base.settings.names;
    let transaction = locked(base, client).await?;
    let id = match Watched::by_settings(&transaction, base).await? {
        Some(watched) => {
            let id = watched.entry.id;
            transaction.commit().await?;
            if !watched.triggers || watched.is_outdated() {
                make_anew(base, client, id).await?;
            } else if watched.known.made.is_none() {
                // Made by a script.
                note_made(&*client, base, id).await?;
            }
            return Ok(id);
        }
        None => {
            let table = Table::inspect(&transaction, names).await?;
            let key = table.key(base.settings.key.as_deref(), names)?;
            let known = Known::of(&table, &key, None).ok_or_else(|| names.key_gone())?;
            let known = match base.writer {
                Writer::Triggers => known,
                Writer::Relay => known.by_relay(wal::Logged::read(&transaction, table.oid).await?.full),
            };
            let kind = (Kind::Journal, base.writer);
            let id = registry::insert(&transaction, &base.database, kind, table.oid, &key, &known).await?;
            let journal = Journal { id, table: &table, key: &key, known: &known, ring: 0 };
            let sql = match base.writer {
                Writer::Triggers => journal.install(),
                Writer::Relay => journal.bare_tables(),
            };
            transaction.batch_execute(&base.database.sql(&sql)).await?;
            if base.writer == Writer::Relay {
                wal::install::publish(&transaction, base, &table).await?;
            }
            transaction.query_opt(&*base.database.sql(WATERMARK_TAKE), &[&id, &table.oid]).await?;
            note_made(&transaction, base, id).await?;
            id
        }
    };
    transaction.commit().await?;
    Ok(id)
}

/// Makes triggers for the table as it is now. Where some were gone, what was written meanwhile is not recorded: positions from
/// before are refused from now on.
pub(super) async fn make_anew(
    base: &Base,
    client: &mut crate::database::Client,
    id: i64,
) -> Result<(), Fault> {
    let names = &base.settings.names;
    let transaction = locked(base, client).await?;
    // The ring must not turn meanwhile: that writes the same functions.
    transaction.execute(&*base.database.sql(NO_PRUNING), &[&id]).await?;
    let watched = Watched::by_id(&transaction, base, id).await?.ok_or_else(|| names.not_installed())?;
    let mut known = watched.known.clone();
    match base.writer {
        Writer::Triggers => transaction.batch_execute(&base.database.sql(&watched.sql().make_anew())).await?,
        Writer::Relay => {
            wal::install::publish(&transaction, base, &watched.table).await?;
            // While rows are read that changes were noted of without the row as it was, that stays so.
            let filling: bool = transaction.query_one(&*base.database.sql(FILLING), &[&id]).await?.get(0);
            known.full &= watched.entry.known.full || !filling;
        }
    }
    registry::note_known(&transaction, &base.database, id, &known).await?;
    note_made(&transaction, base, id).await?;
    // By now nobody writes to them, until the commit.
    let emptied = match base.writer {
        Writer::Triggers => emptied_partition(base, &transaction, &watched).await?,
        Writer::Relay => None,
    };
    if !watched.triggers || emptied.is_some() {
        refuse_what_is_before(base, &transaction, id).await?;
    }
    transaction.commit().await?;
    match emptied {
        Some(partition) => Err(names.partition_emptied(&partition).into()),
        None => Ok(()),
    }
}

/// A partition that was not known, and that lost rows before it had its trigger for TRUNCATE.
async fn emptied_partition(
    base: &Base,
    client: &impl GenericClient,
    watched: &Watched,
) -> Result<Option<String>, Fault> {
    let (known, id) = (&watched.entry.known.partitions, watched.entry.id);
    let unknown =
        watched.table.partitions.iter().filter(|part| !known.is_empty() && !known.contains(&part.oid));
    for partition in unknown {
        let sql = PART_EMPTIED.replace("journal_N", &format!("journal_{id}"));
        let sql = base.database.sql(&sql).replace("{partition}", &partition.quoted);
        if client.query_one(&sql, &[&partition.oid]).await?.get(0) {
            return Ok(Some(partition.quoted.clone()));
        }
    }
    Ok(None)
}

/// Positions from before this moment are refused from now on.
async fn refuse_what_is_before(base: &Base, client: &impl GenericClient, id: i64) -> Result<(), Fault> {
    let tick: i64 = client.query_one(&*base.database.sql(TICK_NOW), &[&id]).await?.get(0);
    client.execute(&*base.database.sql(FLOOR), &[&id, &tick]).await?;
    Ok(())
}

/// What becomes of a registration that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// It stays, and says where the consumer begins: another host may have just written it, and keeps leases that begin there.
    Stays,
    /// It makes way for a new one: positions that belong to it are worth nothing any more.
    MakesWay,
}

impl Registered {
    /// Where the consumer begins, if that is decided.
    async fn start(
        self,
        client: &impl GenericClient,
        base: &Base,
        id: i64,
        consumer: &Consumer,
    ) -> Result<Option<Position>, Fault> {
        if self == Registered::MakesWay {
            return Ok(None);
        }
        match registry::registration(client, &base.database, consumer).await? {
            Some(found) if found.capture != id => Err(base.settings.names.registered_elsewhere().into()),
            found => Ok(found.map(|registration| registration.start)),
        }
    }
}

/// Registers a consumer of the capture and returns where it begins. Of those who do so at the same time, one after the other
/// comes to it.
pub(super) async fn register(
    base: &Base,
    client: &mut crate::database::Client,
    id: i64,
    consumer: &Consumer,
    start: &Start,
    registered: Registered,
) -> Result<Position, Fault> {
    let names = &base.settings.names;
    if let Some(start) = registered.start(&*client, base, id, consumer).await? {
        return Ok(start);
    }
    let watched = Watched::by_id(&*client, base, id).await?.ok_or_else(|| names.not_installed())?;
    let database = &base.database;
    // Nobody drops the index that a backfill needs before its consumer is known.
    let _turn = match start {
        Start::Beginning => Some(backfill::prepare(base, client, &watched).await?),
        _ => None,
    };
    if base.writer == Writer::Relay {
        // What is committed already is before where the consumer begins, as far as somebody relays.
        wal::sync::reached(base, client, RELAYED, false).await?;
    }
    let transaction = locked(base, client).await?;
    if let Some(start) = registered.start(&transaction, base, id, consumer).await? {
        return Ok(start);
    }
    // Before anything else is written: the tick's transaction must not have written yet.
    let tick: i64 = transaction.query_one(&*database.sql(TICK_NOW), &[&id]).await?.get(0);
    let (since, existing) = match start {
        Start::Now => (tick, -1),
        Start::Beginning => (tick, backfill::count(&transaction, &watched).await?),
        Start::Position(position) => (retained(base, &transaction, id, position).await?, -1),
        Start::Time(time) => {
            let row =
                transaction.query_one(&*database.sql(TICK_BEFORE), &[&id, &time.as_microsecond()]).await?;
            let now = registry::time(row.get(1));
            if *time > now {
                return Err(names.in_the_future(*time, now).into());
            }
            let before: Option<i64> = row.get(0);
            if before.is_none() {
                tracing::warn!(feed = %names.feed, from = %time,
                    "changes from that time are not retained, or were never noted: the feed begins with the oldest that is");
            }
            (before.or(row.get(2)).unwrap_or(tick), -1)
        }
    };
    let registration = registry::register(&transaction, database, id, consumer, since, existing).await?;
    let filling =
        (*start == Start::Beginning).then_some(Filling { registration, done: 0, key: None, chunk: None });
    let position = match start {
        Start::Position(position) => position.clone(),
        _ => Place { live: Live::at(since), filling }.position(),
    };
    registry::begins(&transaction, database, registration, &position).await?;
    transaction.commit().await?;
    Ok(position)
}

/// The tick of a live position, which must be retained.
async fn retained(
    base: &Base,
    client: &impl GenericClient,
    id: i64,
    position: &Position,
) -> Result<i64, Fault> {
    let names = &base.settings.names;
    let place = Place::parse(position).ok_or_else(|| names.not_a_position(position))?;
    if place.filling.is_some() {
        return Err(names.backfill_gone(position).into());
    }
    let exists = base.database.sql(include_str!("../../../queries/tick_exists.sql"));
    match client.query_one(&*exists, &[&id, &place.live.from]).await?.get(0) {
        true => Ok(place.live.from),
        false => Err(names.unknown_place(position).into()),
    }
}

/// Forgets the consumer, and takes the journal out when it was the last one.
pub(super) async fn close(base: &Base, consumer: &Consumer) -> Result<(), Fault> {
    let mut client = base.database.client().await?;
    if registry::exists(&client, &base.database).await? {
        // An older version may have made what is there.
        migrate(&base.database, &registry::COMPONENT).await?;
    }
    let transaction = locked(base, &mut client).await?;
    let mut last_of_all = false;
    if let Some(registration) = registry::registration(&transaction, &base.database, consumer).await? {
        let id = registration.capture;
        let entry = registry::entry_by_id(&transaction, &base.database, id, &base.settings.names).await?;
        if registry::forget(&transaction, &base.database, id, consumer).await? == 0 {
            transaction.execute(&*base.database.sql(WATERMARK_NOTE), &[&id]).await?;
            transaction.batch_execute(&base.database.sql(&Journal::remove(id))).await?;
            registry::delete(&transaction, &base.database, id).await?;
            if let Some(entry) = entry.filter(|entry| entry.writer == Writer::Relay) {
                last_of_all = wal::install::unpublish(&transaction, base, entry.relation).await?;
            }
        }
    }
    transaction.commit().await?;
    if last_of_all {
        wal::install::remove(base, &client).await?;
    }
    Ok(())
}
