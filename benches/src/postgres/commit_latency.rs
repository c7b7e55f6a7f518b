//! How long writers wait for their commits at half of the load that the server can take without a capture: with none, with a journal's
//! triggers, and with the server's log, while the relay runs.

use std::time::Duration;

use anyhow::Context as _;
use seriatim::clock;
use tokio::time::{MissedTickBehavior, interval};

use super::Server;
use super::place::{INSERT, Noticed, Place};
use super::relaying::Relaying;
use crate::rounds::Rounds;
use crate::{Backlog, Row};

const SESSIONS: i64 = 8;

/// Each side is measured so many times, by turns.
const ROUNDS: i64 = 5;

/// How often it is measured how many commits there can be.
const PASSES: i64 = 2;

/// Orders that are there before anything is measured.
const EXISTING: i64 = 10_000;

/// How much longer a commit may take by the log.
const AIM: f64 = 1.05;

const SIDES: [(&str, Option<Noticed>); 3] = [
    ("commit-latency-off", None),
    ("commit-latency-journal", Some(Noticed::Journal)),
    ("commit-latency-wal", Some(Noticed::Wal)),
];

/// One side.
struct Measured {
    name: &'static str,
    noticed: Option<Noticed>,
    place: Place,
    /// Of each round: half of the commits, and all but one in a hundred, took so many milliseconds.
    took: Vec<(f64, f64)>,
}

/// Measures it.
pub(super) async fn commit_latency(
    server: &Server,
    names: &[&str],
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let mut sides = Vec::new();
    for (name, noticed) in SIDES {
        if names.contains(&name) || noticed.is_none() {
            sides.push(Measured { name, noticed, place: prepared(server, noticed).await?, took: Vec::new() });
        }
    }
    let commits = (backlog.changes() as i64 / 100 / ROUNDS).clamp(200, 10_000) / SESSIONS * SESSIONS;
    let most = saturated(&sides[0].place, commits).await?;
    let every = Duration::from_secs_f64(SESSIONS as f64 / (most / 2.0));
    for round in 0..ROUNDS {
        let from = EXISTING + (PASSES + round) * commits + 1;
        for side in &mut sides {
            progress(&format!(
                "{} commits a second, {}, round {} of {ROUNDS}",
                (most / 2.0) as u64,
                side.name,
                round + 1
            ));
            let took = side.round(from, commits, every).await?;
            side.took.push(took);
        }
    }
    let off: Vec<f64> = sides[0].took.iter().map(|(half, _)| *half).collect();
    let rows = sides.iter().filter(|side| names.contains(&side.name)).map(|side| side.row(&off)).collect();
    for side in sides {
        side.place.remove().await?;
    }
    Ok(rows)
}

async fn prepared(server: &Server, noticed: Option<Noticed>) -> anyhow::Result<Place> {
    let place = server.place().await?;
    let session = place.session().await?;
    session.execute(INSERT, &[&1_i64, &EXISTING]).await?;
    session.batch_execute("vacuum analyze orders").await?;
    match noticed {
        None => {}
        Some(Noticed::Journal) => place.follow("orders", 1).await?,
        Some(Noticed::Wal) => drop(Relaying::install(&place).await?),
    }
    Ok(place)
}

/// How many commits a second there are without a capture, when nobody pauses.
async fn saturated(place: &Place, commits: i64) -> anyhow::Result<f64> {
    let mut most = 0.0;
    for pass in 0..PASSES {
        let began = clock::now();
        write(place, EXISTING + pass * commits + 1, commits, None).await?;
        most = f64::max(most, commits as f64 / began.elapsed().as_secs_f64());
    }
    Ok(most)
}

impl Measured {
    async fn round(&self, from: i64, commits: i64, every: Duration) -> anyhow::Result<(f64, f64)> {
        let relaying = match self.noticed {
            Some(Noticed::Wal) => Some(Relaying::begin(&self.place).await?),
            _ => None,
        };
        let took = write(&self.place, from, commits, Some(every)).await?;
        if let Some(relaying) = relaying {
            relaying.caught_up(&self.place).await?;
            relaying.end(&self.place).await?;
        }
        let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied();
        at(0.5).zip(at(0.99)).context("nothing was committed")
    }

    /// The round in the middle, by how it compares with the same round without a capture.
    fn row(&self, off: &[f64]) -> Row {
        let (mut halves, mut most) = (Rounds::default(), Rounds::default());
        for ((half, all), off) in self.took.iter().zip(off) {
            halves.add(*half, *off);
            most.add(*all, *off);
        }
        let (half, limit) = halves.middle();
        let (p50, p99, limit) = (rounded(half), rounded(most.middle().0), rounded(limit));
        let aim = if self.noticed == Some(Noticed::Wal) { AIM } else { 0.0 };
        Row { p50_ms: Some(p50), p99_ms: Some(p99), ..Row::new(self.name, p50, "ms", limit, aim) }
    }
}

/// Each session commits its share, one order at a time. Returns how many milliseconds each commit took, the shortest first.
async fn write(place: &Place, from: i64, commits: i64, every: Option<Duration>) -> anyhow::Result<Vec<f64>> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = place.session().await?;
        let insert = session.prepare_cached(INSERT).await?;
        sessions.push((session, insert));
    }
    let mut tasks = Vec::new();
    for (number, (session, insert)) in (0..).zip(sessions) {
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::new();
            let mut ticks = every.map(interval);
            if let Some(ticks) = &mut ticks {
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            }
            for at in 0..commits / SESSIONS {
                if let Some(ticks) = &mut ticks {
                    ticks.tick().await;
                }
                let (order, began) = (from + at * SESSIONS + number, clock::now());
                session.execute(&insert, &[&order, &order]).await?;
                took.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(took)
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    took.sort_by(f64::total_cmp);
    Ok(took)
}

/// To the microsecond.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1000.0).round() / 1000.0
}
