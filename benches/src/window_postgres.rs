//! Draining a window on PostgreSQL, checkpointed, with a handler that does nothing, against the bare paged select of the same rows.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::ensure;
use seriatim::Host;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::jiff::Timestamp;
use seriatim_postgres::{Database, PostgresStore, Source};
use seriatim_testkit::servers::Postgres;

use crate::{Backlog, Nothing, Row};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

/// The same page as a window has unless told otherwise.
const PAGE: usize = 1000;

/// Measures draining a whole table on a throw-away server. Says so and measures nothing where that is not installed.
pub(crate) async fn window_drain(
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Row>> {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(missing) => {
            eprintln!("window-drain-postgres is left out: {missing}");
            return Ok(None);
        }
    };
    let rows = backlog.changes() as i64;
    let database = Database::connect(&server.url())?;
    progress(&format!("writing {rows} rows to PostgreSQL"));
    let client = database.users_client().await?;
    client.batch_execute(include_str!("../sql/dated_orders_postgres.sql")).await?;
    client.execute(include_str!("../sql/dated_insert_postgres.sql"), &[&rows]).await?;
    client.batch_execute("vacuum analyze orders").await?;
    drop(client);
    let (mut value, mut limit) = (0.0, 0.0);
    for round in 1..=ROUNDS {
        progress(&format!("{rows} rows of PostgreSQL, round {round} of {ROUNDS}"));
        limit = f64::max(limit, bare_pages(&database, rows).await?);
        value = f64::max(value, drain(&server.url(), round, rows).await?);
    }
    Ok(Some(Row::new("window-drain-postgres", value.round(), "rows/s", limit.round(), 0.5)))
}

async fn drain(url: &str, round: usize, rows: i64) -> anyhow::Result<f64> {
    let store = PostgresStore::connect(&format!("{url}?seriatim_schema=round_{round}")).await?;
    let window = Source::connect(url)?.window("orders", "updated_at");
    let handling = Handling::AtLeastOnce(Arc::new(Nothing));
    let settings = FeedSettings::default();
    let host = Host::new("bench", Arc::new(store)).feed_with(Arc::new(window), handling, settings);
    let stats = host.stats();
    let began = clock::now();
    host.run_once().await?;
    let seconds = began.elapsed().as_secs_f64();
    let handled: u64 = stats.iter().map(|(_, stats)| stats.handled()).sum();
    ensure!(handled == rows as u64, "{handled} rows were handled instead of {rows}");
    Ok(handled as f64 / seconds)
}

/// A row as whoever wants to do something with it needs it: every column, as a value that outlives the answer.
type Order = (i64, String, i32, String, Timestamp);

/// Reads the same rows page by page, each from the last row of the page before it.
async fn bare_pages(database: &Database, rows: i64) -> anyhow::Result<f64> {
    let client = database.users_client().await?;
    let statement = client.prepare(include_str!("../sql/dated_page_postgres.sql")).await?;
    let began = clock::now();
    let (mut last, mut count) = ((Timestamp::UNIX_EPOCH, 0_i64), 0);
    loop {
        let page = client.query(&statement, &[&last.0, &last.1]).await?;
        let values = page.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)));
        let page: Vec<Order> = black_box(values.collect());
        last = page.last().map_or(last, |(id, _, _, _, at)| (*at, *id));
        count += page.len();
        if page.len() < PAGE {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(count == rows as usize, "the table has {count} rows instead of {rows}");
    Ok(count as f64 / seconds)
}
