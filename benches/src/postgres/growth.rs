//! How much room everything of Seriatim's takes after much has changed and been handled: a journal and a log of the same table.
//!
//! The churn of an hour takes seconds here, in which PostgreSQL's autovacuum does not wake up once. So each step, which stands for a
//! minute or two, ends with what it would have done: the tables that it looks after are vacuumed, and no others.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use seriatim::handler::Handling;
use seriatim::host::{FeedSettings, Stats};
use seriatim::source::Start;
use seriatim::{FeedName, Host};
use seriatim_postgres::Client;
use tokio::sync::oneshot;

use super::place::{INSERT, Place, UPDATE};
use crate::{Backlog, Nothing, Row};

/// How many orders there are.
const ORDERS: i64 = 10_000;

/// In how many steps the churn is written; after each, everything is handled and the room is looked at.
const STEPS: u64 = 40;

/// How many orders one statement changes.
const STATEMENT: i64 = 500;

/// How long handling one step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures the most room of the first half of the steps and of the second.
pub(super) async fn growth(
    place: &Place,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Row> {
    let session = place.session().await?;
    session.execute(INSERT, &[&1_i64, &ORDERS]).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let settings = FeedSettings { start: Start::Now, ..FeedSettings::default() };
    let source = place.source()?;
    let nothing = || Handling::AtLeastOnce(Arc::new(Nothing));
    let journal = source.journal("orders").named(FeedName::new("journal")?);
    let log = source.log("orders").named(FeedName::new("log")?);
    let once = Host::new("bench", Arc::new(place.store().await?));
    let host = |host: Host, journal, log| {
        host.feed_with(Arc::new(journal), nothing(), settings.clone()).feed_with(
            Arc::new(log),
            nothing(),
            settings.clone(),
        )
    };
    host(once, journal, log).run_once().await?;
    let journal = source.journal("orders").named(FeedName::new("journal")?);
    let log = source.log("orders").named(FeedName::new("log")?);
    let host = host(Host::new("bench", Arc::new(place.store().await?)), journal, log);
    let stats: Arc<Stats> = host.stats()[0].1.clone();
    let running = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    let update = session.prepare(UPDATE).await?;
    let statements = (backlog.changes() / STEPS / STATEMENT.cast_unsigned()).max(1);
    let (mut written, mut rooms, mut from) = (0, Vec::new(), 1);
    for step in 1..=STEPS {
        progress(&format!("{} changes of {ORDERS} orders, step {step} of {STEPS}", backlog.changes()));
        for _ in 0..statements {
            written += session.execute(&update, &[&from, &(from + STATEMENT - 1)]).await?;
            from = if from + STATEMENT > ORDERS { 1 } else { from + STATEMENT };
        }
        until_handled(&stats, written).await?;
        vacuum(&session).await?;
        let room: i64 = session.query_one(include_str!("../../sql/postgres/sizes.sql"), &[]).await?.get(0);
        rooms.push(room as f64 / f64::from(1 << 20));
    }
    drop(stop);
    running.await??;
    let most = |rooms: &[f64]| rooms.iter().copied().fold(0.0, f64::max).round();
    let (first, second) = rooms.split_at(rooms.len() / 2);
    Ok(Row::new("growth-churn-postgres", most(second), "MiB", most(first), 1.25))
}

async fn vacuum(session: &Client) -> anyhow::Result<()> {
    for table in session.query(include_str!("../../sql/postgres/vacuumed.sql"), &[]).await? {
        session.batch_execute(&format!("vacuum {}", table.get::<_, &str>(0))).await?;
    }
    Ok(())
}

async fn until_handled(stats: &Stats, written: u64) -> anyhow::Result<()> {
    let handled = async {
        while stats.handled() < written {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, handled).await.is_ok();
    ensure!(in_time, "{} of {written} changes were handled within {PATIENCE:?}", stats.handled());
    Ok(())
}
