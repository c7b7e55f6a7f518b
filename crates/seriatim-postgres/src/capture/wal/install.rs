//! Makes the slot and the publication, publishes tables, and takes all of it out again.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use seriatim::source::SourceError;

use super::super::error::Fault;
use super::super::kind::Base;
use super::super::names::{literal, quoted};
use super::super::table::Table;
use super::publication::Published;
use super::server::{self, Server};
use super::slot::{Found, State, fault, place};
use super::{Logged, lsn::Lsn};
use crate::database::{Client, Dedicated};

const TURN: &str = "select pg_advisory_lock(hashtextextended('seriatim.relay_install', 0))";
const INSERT: &str = include_str!("../../../queries/relay_insert.sql");
const ANEW: &str = include_str!("../../../queries/relay_anew.sql");
const DELETE: &str = include_str!("../../../queries/relay_delete.sql");
const TERMINATE: &str = include_str!("../../../queries/relay_terminate.sql");
const LEFT: &str = include_str!("../../../queries/wal_journals_left.sql");

/// How often, and how many times, it is looked whether the slot's reader is gone.
const READER_GOES: (Duration, usize) = (Duration::from_millis(50), 200);

/// Refuses a table, a server or a role that cannot have its log relayed. Writes nothing.
pub(crate) async fn check(client: &impl GenericClient, base: &Base, table: &Table) -> Result<Logged, Fault> {
    let names = &base.settings.names;
    server::check(client, &base.database, &base.slot, names).await?;
    let key = table.key(base.settings.key.as_deref(), names)?;
    let logged = Logged::usable(client, table, &key, names).await?;
    if base.settings.filter.is_some() && !logged.full {
        return Err(names.filter_by_log().into());
    }
    Ok(logged)
}

/// What became of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// It was there, or it is new.
    Ready,
    /// Its slot had to be made anew: nobody has seen what was written in between.
    MadeAnew,
}

/// Makes the relay's slot and publication if they are not there. With `repair`, also where they cannot be used any more.
pub(crate) async fn prepare(base: &Base, client: &Client, repair: bool) -> Result<Prepared, Fault> {
    let _turn = turn(base).await?;
    let names = &base.settings.names;
    let Some(state) = State::read(client, &base.database).await? else {
        let server = server::check(client, &base.database, &base.slot, names).await?;
        make(base, client, &server).await?;
        return Ok(Prepared::Ready);
    };
    refuse_other_names(base, &state)?;
    let found = Found::read(client, &state.slot).await?;
    match state.fault.clone().or_else(|| fault(&state, found.as_ref())) {
        None => Ok(Prepared::Ready),
        Some(wrong) if !repair || found.is_some_and(|found| !found.ours) => {
            Err(names.relay_stopped(&wrong).into())
        }
        Some(_) => {
            let server = server::check(client, &base.database, &base.slot, names).await?;
            drop_slot(client, &state.slot).await?;
            make_publication(client, &state.publication).await?;
            let at = make_slot(client, &state.slot, server.major).await?;
            client.execute(&*base.database.sql(ANEW), &[&at.to_string()]).await?;
            Ok(Prepared::MadeAnew)
        }
    }
}

/// That nobody else makes or drops the slot, for as long as this lives.
async fn turn(base: &Base) -> Result<Dedicated, Fault> {
    let connection = base.database.dedicated().await?;
    connection.client().batch_execute(TURN).await?;
    Ok(connection)
}

/// One relay serves all feeds of a database: its names are those of the first feed.
fn refuse_other_names(base: &Base, state: &State) -> Result<(), SourceError> {
    let pairs =
        [("slot", &base.slot.slot, &state.slot), ("publication", &base.slot.publication, &state.publication)];
    let other = pairs.iter().find(|(_, asked, made)| asked.as_ref().is_some_and(|asked| asked != *made));
    match other {
        Some((what, asked, made)) => {
            let asked = asked.as_deref().unwrap_or_default();
            Err(base.settings.names.other_slot(&format!("{what} = {made:?}"), &format!("{what} = {asked:?}")))
        }
        None => Ok(()),
    }
}

async fn make(base: &Base, client: &Client, server: &Server) -> Result<(), Fault> {
    let own = server.own_name(&base.database);
    let slot = base.slot.slot.clone().unwrap_or_else(|| own.clone());
    let publication = base.slot.publication.clone().unwrap_or(own);
    let was_there = !make_publication(client, &publication).await?;
    // What an installation left that was broken off. Nobody reads it: it would be in the books.
    drop_slot(client, &slot).await?;
    let at = make_slot(client, &slot, server.major).await?;
    let insert = base.database.sql(INSERT);
    let foreign = was_there && base.slot.publication.is_some();
    client.execute(&*insert, &[&slot, &publication, &foreign, &at.to_string()]).await?;
    Ok(())
}

/// Makes the publication, and says whether it was not there.
async fn make_publication(client: &Client, name: &str) -> Result<bool, Fault> {
    if Published::read(client, name, 0).await?.there {
        return Ok(false);
    }
    client
        .batch_execute(&format!(
            "create publication {} with (publish_via_partition_root = true)",
            quoted(name)
        ))
        .await?;
    Ok(true)
}

/// Makes the slot. Waits for transactions that are open, for as long as for any lock: whoever cannot have it leaves nothing behind.
async fn make_slot(client: &Client, slot: &str, major: i32) -> Result<Lsn, Fault> {
    // Standbys keep a copy of it, where the server can.
    let failover = if major >= 17 { ", false, false, true" } else { "" };
    let sql = format!(
        "select lsn::text from pg_create_logical_replication_slot({}, 'pgoutput'{failover})",
        literal(slot)
    );
    let row = client.query_one(&sql, &[]).await?;
    Ok(place(row.get(0)))
}

/// Drops a slot, also one that is being read.
async fn drop_slot(client: &Client, slot: &str) -> Result<(), Fault> {
    for _ in 0..READER_GOES.1 {
        let Some(found) = Found::read(client, slot).await? else { return Ok(()) };
        match found.reader {
            Some(reader) => {
                client.query(TERMINATE, &[&reader]).await?;
                tokio::time::sleep(READER_GOES.0).await;
            }
            None => {
                let dropped = client.query("select pg_drop_replication_slot($1)", &[&slot]).await;
                match dropped {
                    // Somebody reads it again.
                    Err(cause) if cause.code() == Some(&tokio_postgres::error::SqlState::OBJECT_IN_USE) => {}
                    dropped => return dropped.map(drop).map_err(Fault::from),
                }
            }
        }
    }
    let said = "another session reads it and does not end";
    Err(SourceError::unavailable(format!("dropping the replication slot {slot}"), said).into())
}

/// Puts the table into the publication, and waits for those who write to it: what they write from then on is published. Nothing is done
/// where it is in already.
pub(crate) async fn publish(client: &impl GenericClient, base: &Base, table: &Table) -> Result<(), Fault> {
    let names = &base.settings.names;
    let state = State::read(client, &base.database).await?.ok_or_else(|| names.not_installed())?;
    let published = Published::read(client, &state.publication, table.oid).await?;
    if published.whole {
        return Ok(());
    }
    let (quoted_table, publication) = (table.quoted(), quoted(&state.publication));
    let taken_out = match published.made.triggers.len() {
        2 => format!("alter publication {publication} drop table only {quoted_table};\n"),
        _ => String::new(),
    };
    let changes = "set (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)";
    client
        .batch_execute(&format!(
            "lock table {quoted_table} in share row exclusive mode;\n{taken_out}alter publication {publication} add table only {quoted_table};\n\
             alter publication {publication} {changes};"
        ))
        .await?;
    Ok(())
}

/// The table as it is in the publication now.
pub(crate) async fn published(
    client: &impl GenericClient,
    base: &Base,
    table: u32,
) -> Result<Option<Published>, Fault> {
    let Some(state) = State::read(client, &base.database).await? else { return Ok(None) };
    Published::read(client, &state.publication, table).await.map(Some)
}

/// Takes a table out of the publication whose last journal was just struck out of the books. Says whether that was the last of all.
pub(crate) async fn unpublish(client: &impl GenericClient, base: &Base, table: u32) -> Result<bool, Fault> {
    let row = client.query_one(&*base.database.sql(LEFT), &[&table]).await?;
    let (left, of_the_table): (i64, i64) = (row.get(0), row.get(1));
    let Some(state) = State::read(client, &base.database).await? else { return Ok(left == 0) };
    let published = Published::read(client, &state.publication, table).await?;
    if of_the_table == 0 && published.made.triggers.len() == 2 {
        // A table that is gone is in no publication: it has a name.
        let name: String = client.query_one("select $1::oid::regclass::text", &[&table]).await?.get(0);
        let publication = quoted(&state.publication);
        client.batch_execute(&format!("alter publication {publication} drop table only {name}")).await?;
    }
    Ok(left == 0)
}

/// Takes the slot and the publication out: no journal is left that they are for.
pub(crate) async fn remove(base: &Base, client: &Client) -> Result<(), Fault> {
    let _turn = turn(base).await?;
    let Some(state) = State::read(client, &base.database).await? else { return Ok(()) };
    if client.query_one(&*base.database.sql(LEFT), &[&0u32]).await?.get::<_, i64>(0) > 0 {
        return Ok(());
    }
    // Before the slot is dropped: from now on nobody begins to read it.
    client.execute(&*base.database.sql(DELETE), &[]).await?;
    drop_slot(client, &state.slot).await?;
    if !state.foreign_publication {
        client.batch_execute(&format!("drop publication if exists {}", quoted(&state.publication))).await?;
    }
    Ok(())
}
