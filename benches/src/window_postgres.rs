//! Draining a window on PostgreSQL, checkpointed, with a handler that does nothing, against the bare paged select of the same rows;
//! and how that changes when the table grows behind the tracker.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::ensure;
use seriatim::Host;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::jiff::Timestamp;
use seriatim::source::Start;
use seriatim_postgres::{Database, PostgresStore, Source};
use seriatim_testkit::servers::Postgres;

use crate::{Backlog, Nothing, Row};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

/// The same page as a window has unless told otherwise.
const PAGE: usize = 1000;

/// What is drained, and what is there already.
#[derive(Clone, Copy)]
struct Sizes {
    behind: i64,
    drained: i64,
}

/// Measures draining a whole table on a throw-away server. Says so and measures nothing where that is not installed.
pub(crate) async fn window_drain(
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Row>> {
    let sizes = Sizes { behind: 0, drained: backlog.changes() as i64 };
    let measured = measure("window-drain-postgres", sizes, progress).await?;
    let row = |(value, limit): (f64, f64)| {
        Row::new("window-drain-postgres", value.round(), "rows/s", limit.round(), 0.5)
    };
    Ok(measured.map(row))
}

/// How many times as long as the bare select it takes with a thousand times as many rows behind the tracker.
pub(crate) async fn growth(
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Row>> {
    let name = "growth-window-postgres";
    let drained = (backlog.changes() as i64 / 10).max(1);
    let behind = backlog.changes() as i64 * 10;
    let small = measure(name, Sizes { behind: (behind / 1000).max(1), drained }, progress).await?;
    let Some(small) = small else { return Ok(None) };
    let Some(large) = measure(name, Sizes { behind, drained }, progress).await? else { return Ok(None) };
    let times_bare = |(value, limit): (f64, f64)| (limit / value * 100.0).round() / 100.0;
    Ok(Some(Row::new(name, times_bare(large), "times bare", times_bare(small), 1.5)))
}

async fn measure(
    name: &str,
    sizes: Sizes,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<(f64, f64)>> {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(missing) => {
            eprintln!("{name} is left out: {missing}");
            return Ok(None);
        }
    };
    let rows = sizes.behind + sizes.drained;
    let database = Database::connect(&server.url())?;
    progress(&format!("writing {rows} rows to PostgreSQL"));
    let client = database.users_client("").await?;
    client.batch_execute(include_str!("../sql/dated_orders_postgres.sql")).await?;
    client.execute(include_str!("../sql/dated_insert_postgres.sql"), &[&rows]).await?;
    client.batch_execute(include_str!("../sql/dated_index_postgres.sql")).await?;
    client.batch_execute(include_str!("../sql/dated_vacuum_postgres.sql")).await?;
    drop(client);
    let (mut value, mut limit) = (0.0, 0.0);
    for round in 1..=ROUNDS {
        progress(&format!("{} rows of PostgreSQL, round {round} of {ROUNDS}", sizes.drained));
        limit = f64::max(limit, bare_pages(&database, sizes).await?);
        value = f64::max(value, drain(&server.url(), round, sizes).await?);
    }
    Ok(Some((value, limit)))
}

async fn drain(url: &str, round: usize, sizes: Sizes) -> anyhow::Result<f64> {
    let store = PostgresStore::connect(&format!("{url}?seriatim_schema=round_{round}")).await?;
    let window = Source::connect(url)?.window("orders", "updated_at");
    let handling = Handling::AtLeastOnce(Arc::new(Nothing));
    let start = Start::Time(Timestamp::from_millisecond(sizes.behind + 1)?);
    let settings = FeedSettings { start, ..FeedSettings::default() };
    let host = Host::new("bench", Arc::new(store)).feed_with(Arc::new(window), handling, settings);
    let stats = host.stats();
    let began = clock::now();
    host.run_once().await?;
    let seconds = began.elapsed().as_secs_f64();
    let handled: u64 = stats.iter().map(|(_, stats)| stats.handled()).sum();
    ensure!(handled == sizes.drained as u64, "{handled} rows were handled instead of {}", sizes.drained);
    Ok(handled as f64 / seconds)
}

/// A row as whoever wants to do something with it needs it: every column, as a value that outlives the answer.
type Order = (i64, String, i32, String, Timestamp);

/// Reads the same rows page by page, each from the last row of the page before it.
async fn bare_pages(database: &Database, sizes: Sizes) -> anyhow::Result<f64> {
    let client = database.users_client("").await?;
    let statement = client.prepare(include_str!("../sql/dated_page_postgres.sql")).await?;
    let began = clock::now();
    let (mut last, mut count) = ((Timestamp::from_millisecond(sizes.behind)?, sizes.behind), 0);
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
    ensure!(count == sizes.drained as usize, "the table has {count} rows instead of {}", sizes.drained);
    Ok(count as f64 / seconds)
}
