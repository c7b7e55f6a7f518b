//! How long it takes from a commit to the handler, by a journal or by the server's log, while 1,000 transactions a second are
//! committed.
//!
//! Counted from the moment at which the writer sends its statement, so the commit itself is in it too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use seriatim::handler::{Handler, Handling};
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim::{Change, Context, Failure, Host, Value, clock};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::place::{INSERT, Noticed, Place};
use crate::{Backlog, Nothing, Row};

const SESSIONS: i64 = 4;

/// How often each session commits: together 1,000 times a second.
const EVERY: Duration = Duration::from_millis(4);

/// Commits that nobody counts: connections are made, plans too.
const WARMING_UP: usize = 500;

/// How many milliseconds half of the changes, and all but one in a hundred, should take.
fn aim(noticed: Noticed) -> (f64, f64) {
    match noticed {
        Noticed::Journal => (10.0, 50.0),
        Noticed::Wal => (5.0, 25.0),
    }
}

/// Notes when each order came.
#[derive(Default)]
struct Arrivals(Mutex<Vec<(i64, Instant)>>);

impl Arrivals {
    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[async_trait]
impl Handler for Arrivals {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        let now = clock::now();
        let order = |change: &Change| match change.key.as_ref()?.row().values().first()? {
            Value::Integer(id) => Some((*id, now)),
            _ => None,
        };
        let mut arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.extend(changes.iter().filter_map(order));
        Ok(())
    }
}

/// Measures it.
pub(super) async fn latency(
    place: &Place,
    noticed: Noticed,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Row> {
    let commits = (backlog.changes() / 100).clamp(1_000, 60_000) as i64 / SESSIONS * SESSIONS;
    progress(&format!("1,000 commits a second, {commits} altogether"));
    let arrivals = Arc::new(Arrivals::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let feed = Arc::new(place.orders(noticed)?.partitions(16));
    // Registered before anything is written.
    let settings = FeedSettings { start: Start::Now, ..FeedSettings::default() };
    let first = Host::new("first", Arc::new(place.store().await?));
    first
        .feed_with(feed.clone(), Handling::AtLeastOnce(Arc::new(Nothing)), settings.clone())
        .run_once()
        .await?;
    let handling = Handling::AtLeastOnce(arrivals.clone());
    let host = Host::new("bench", Arc::new(place.store().await?)).feed_with(feed, handling, settings);
    let host = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    let sent = write(place, commits).await?;
    let deadline = clock::now() + Duration::from_secs(30);
    while arrivals.count() < sent.len() && clock::now() < deadline && !host.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(stop);
    host.await??;
    let trip = round_trip(place).await?;
    let (p50, p99) = percentiles(&sent, &arrivals)?;
    let aim = aim(noticed);
    let row = Row::new(noticed.latency(), p50, "ms", trip, aim.0);
    Ok(Row { p50_ms: Some(p50), p99_ms: Some(p99), p99_aim_ms: Some(aim.1), ..row })
}

/// Commits so many orders, and returns when each was sent.
async fn write(place: &Place, commits: i64) -> anyhow::Result<Vec<Instant>> {
    let mut tasks = Vec::new();
    for number in 0..SESSIONS {
        let session = place.session().await?;
        tasks.push(tokio::spawn(async move {
            let insert = session.prepare(INSERT).await?;
            let mut sent = Vec::new();
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for at in 0..commits / SESSIONS {
                ticks.tick().await;
                let order = at * SESSIONS + number;
                sent.push((order, clock::now()));
                session.execute(&insert, &[&order, &order]).await?;
            }
            anyhow::Ok(sent)
        }));
    }
    let mut sent = Vec::new();
    for task in tasks {
        sent.extend(task.await??);
    }
    sent.sort();
    Ok(sent.into_iter().map(|(_, at)| at).collect())
}

/// The shortest of some round trips to the server, in milliseconds.
async fn round_trip(place: &Place) -> anyhow::Result<f64> {
    let session = place.session().await?;
    let statement = session.prepare("select 1").await?;
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let began = clock::now();
        session.query_one(&statement, &[]).await?;
        best = best.min(milliseconds(began.elapsed()));
    }
    Ok(best)
}

fn percentiles(sent: &[Instant], arrivals: &Arrivals) -> anyhow::Result<(f64, f64)> {
    let arrivals = arrivals.0.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(arrivals.len() == sent.len(), "{} changes came instead of {}", arrivals.len(), sent.len());
    let took = |(order, at): &(i64, Instant)| {
        let sent = sent.get(usize::try_from(*order).ok()?)?;
        (*order as usize >= WARMING_UP).then(|| milliseconds(at.duration_since(*sent)))
    };
    let mut took: Vec<f64> = arrivals.iter().filter_map(took).collect();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied();
    let (p50, p99) = at(0.5).zip(at(0.99)).context("nothing came")?;
    Ok((p50, p99))
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
