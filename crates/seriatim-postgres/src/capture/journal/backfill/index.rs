//! The index that finds a row's changes: there while existing rows are read, and only then.

use std::time::Duration;

use seriatim::source::SourceError;

use super::super::super::error::Fault;
use super::super::super::kind::Base;
use super::super::triggers::RING;
use crate::database::{Client, Dedicated};

const TURN: &str = include_str!("../../../../queries/journal_hash_index_turn.sql");
const TURN_BRIEFLY: &str = include_str!("../../../../queries/journal_hash_index_turn_briefly.sql");
const PATIENCE: &str = include_str!("../../../../queries/journal_hash_index_patience.sql");
const RING_SIZE: &str = include_str!("../../../../queries/journal_ring_size.sql");
const FINISHED: &str = include_str!("../../../../queries/journal_hash_index_finished.sql");
const UNFINISHED: &str = include_str!("../../../../queries/journal_hash_index_unfinished.sql");
const AT_ONCE: &str = include_str!("../../../../queries/journal_hash_index.sql");
const BESIDE: &str = include_str!("../../../../queries/journal_hash_index_beside.sql");
const FILLING: &str = include_str!("../../../../queries/consumer_filling.sql");
const DROP: &str = include_str!("../../../../queries/journal_hash_index_drop.sql");

/// Rings that are larger get their index while others write.
const LARGE: i64 = 16 << 20;

/// How often, and how many times, whoever waits for his turn asks again. He must not wait in the server: whoever makes an index
/// beside writers waits for all who wait there.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASK: usize = 6000;

/// That nobody else makes or drops the indexes of a journal, for as long as this lives.
pub(in super::super) struct Turn(Dedicated);

impl Turn {
    async fn take(base: &Base, capture: i64) -> Result<Self, Fault> {
        let connection = base.database.dedicated().await?;
        let sql = base.database.sql(TURN);
        for _ in 0..ASK {
            if connection.client().query_one(&*sql, &[&capture]).await?.get(0) {
                return Ok(Turn(connection));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        let names = &base.settings.names;
        let doing = format!("feed {}: making an index of its journal", names.feed);
        Err(SourceError::unavailable(doing, "another host has been at it for ten minutes").into())
    }
}

/// Makes the indexes that are not there, and those anew whose making was broken off. Nobody drops them before the turn is given
/// back: until then a consumer that needs them is to be registered.
pub(super) async fn make(base: &Base, capture: i64) -> Result<Turn, Fault> {
    let mut turn = Turn::take(base, capture).await?;
    turn.0.client().batch_execute(PATIENCE).await?;
    for ring in 0..RING {
        make_one(base, &mut turn, &format!("journal_{capture}_{ring}")).await?;
    }
    Ok(turn)
}

async fn make_one(base: &Base, Turn(connection): &mut Turn, ring: &str) -> Result<(), Fault> {
    let sql = |template: &str| base.database.sql(&template.replace("journal_N_R", ring)).into_owned();
    let table = format!("{}.{ring}", base.database.schema());
    let finished = connection.client().query_opt(FINISHED, &[&format!("{table}_hash")]).await?;
    match finished.map(|row| row.get(0)) {
        Some(true) => return Ok(()),
        Some(false) => connection.client().batch_execute(&sql(UNFINISHED)).await?,
        None => {}
    }
    let size: i64 = connection.client().query_one(RING_SIZE, &[&table]).await?.get(0);
    if size > LARGE {
        connection.client().batch_execute(&sql(BESIDE)).await?;
    } else {
        let transaction = connection.client_mut().transaction().await?;
        transaction.batch_execute(&sql(AT_ONCE)).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Drops the indexes if nobody needs them. One that somebody is just using stays: it is only of no use.
pub(in super::super) async fn drop_unneeded(
    base: &Base,
    client: &mut Client,
    capture: i64,
) -> Result<(), Fault> {
    for ring in 0..RING {
        let transaction = client.transaction().await?;
        let database = &base.database;
        let our_turn: bool = transaction.query_one(&*database.sql(TURN_BRIEFLY), &[&capture]).await?.get(0);
        if !our_turn || transaction.query_one(&*database.sql(FILLING), &[&capture]).await?.get(0) {
            return Ok(());
        }
        let drop = DROP.replace("journal_N_R", &format!("journal_{capture}_{ring}"));
        match transaction.batch_execute(&database.sql(&drop)).await {
            Ok(()) => transaction.commit().await?,
            Err(cause) => {
                tracing::debug!(%cause, "an index stays for now");
                transaction.rollback().await?;
            }
        }
    }
    Ok(())
}
