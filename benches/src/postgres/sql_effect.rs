//! An exactly-once SQL handler on PostgreSQL, in batches of 1,000, against the same SQL by hand in batches as large: pipelined in the
//! same way, on one connection as the handler of one partition is.

use std::sync::Arc;

use anyhow::ensure;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim_postgres::{SqlEffect, in_transaction};

use super::place::{self, Place};
use crate::{Backlog, Row};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

const BATCH: usize = 1000;

/// How many statements are on their way at once, as in the handler.
const ON_THE_WAY: usize = 256;

/// Measures it.
pub(super) async fn sql_effect(
    place: &Place,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Row> {
    for round in 1..=ROUNDS {
        place.follow(&feed(round), 1).await?;
    }
    progress(&format!("writing {} changes", backlog.changes()));
    let session = place.session().await?;
    place::write(&session, backlog.changes()).await?;
    let changes = changes(place).await?;
    let (mut limit, mut value) = (0.0, 0.0);
    for round in 1..=ROUNDS {
        progress(&format!("{} statements, round {round} of {ROUNDS}", backlog.changes()));
        empty(place).await?;
        limit = f64::max(limit, by_hand(place, &changes).await?);
        empty(place).await?;
        value = f64::max(value, by_handler(place, round, backlog).await?);
    }
    Ok(Row::new("sql-effect-postgres", value.round(), "changes/s", limit.round(), 0.8))
}

fn feed(round: usize) -> String {
    format!("round-{round}")
}

async fn empty(place: &Place) -> anyhow::Result<()> {
    let session = place.session().await?;
    session.batch_execute("drop table if exists copies").await?;
    Ok(session.batch_execute(include_str!("../../sql/postgres/copies.sql")).await?)
}

/// What the changes say, in their order: id and amount.
async fn changes(place: &Place) -> anyhow::Result<Vec<(i64, i32)>> {
    let session = place.session().await?;
    let ring: String = session.query_one(include_str!("../../sql/postgres/ring.sql"), &[]).await?.get(0);
    let sql = format!("select (after ->> 'id')::bigint, (after ->> 'amount')::int from {ring} order by id");
    let rows = session.query(&*sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn by_hand(place: &Place, changes: &[(i64, i32)]) -> anyhow::Result<f64> {
    let mut session = place.session().await?;
    let began = clock::now();
    let statement = session.prepare(include_str!("../../sql/postgres/copy.sql")).await?;
    for batch in changes.chunks(BATCH) {
        let transaction = session.transaction().await?;
        let each = stream::iter(batch).map(|(id, amount)| {
            let (transaction, statement) = (&transaction, &statement);
            Ok(async move { transaction.execute(statement, &[id, amount]).await })
        });
        each.try_buffered(ON_THE_WAY).try_for_each(|_| async { Ok(()) }).await?;
        transaction.commit().await?;
    }
    Ok(changes.len() as f64 / began.elapsed().as_secs_f64())
}

async fn by_handler(place: &Place, round: usize, backlog: Backlog) -> anyhow::Result<f64> {
    let store = place.store().await?;
    let effect = SqlEffect::new(include_str!("../../sql/postgres/effect.sql"), None);
    let handling = Handling::ExactlyOnce(Arc::new(in_transaction(&store, effect)));
    let settings = FeedSettings { batch: BATCH, ..FeedSettings::default() };
    let began = clock::now();
    let handled = place.drain(&feed(round), 1, store, handling, settings).await?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(handled == backlog.changes(), "{handled} changes were handled instead of {}", backlog.changes());
    Ok(handled as f64 / seconds)
}
