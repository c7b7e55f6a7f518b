//! What noting changes costs those who write: four sessions that insert and update, with no capture, with each of Seriatim's, and
//! with PgQ's trigger, where that is installed. By the server's log, the relay runs meanwhile and shares the machine with them.

use std::sync::Arc;

use anyhow::ensure;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim::{FeedName, Host};

use super::Server;
use super::place::{INSERT, Place, UPDATE};
use super::relaying::Relaying;
use crate::{Backlog, Nothing, Row};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: i64 = 5;

const SESSIONS: i64 = 4;

/// Orders that are there before anything is measured, so that statements are planned as for a table in use.
const EXISTING: i64 = 10_000;

/// Who notes the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Off,
    Log,
    Journal,
    Wal,
    Pgq,
}

impl Side {
    const ALL: [Side; 5] = [Side::Off, Side::Log, Side::Journal, Side::Wal, Side::Pgq];

    fn name(self, rows: i64) -> String {
        let side = match self {
            Side::Off => "off",
            Side::Log => "log",
            Side::Journal => "journal",
            Side::Wal => "wal",
            Side::Pgq => "pgq",
        };
        format!("capture-{side}-postgres-{rows}")
    }

    /// Has everything ready on a database of its own.
    async fn install(self, place: &Place) -> anyhow::Result<()> {
        let session = place.session().await?;
        session.execute(INSERT, &[&1_i64, &EXISTING]).await?;
        session.batch_execute("vacuum analyze orders").await?;
        let source = place.source()?;
        let feed = match self {
            Side::Off => return Ok(()),
            Side::Pgq => {
                return Ok(session.batch_execute(include_str!("../../sql/postgres/pgq.sql")).await?);
            }
            Side::Log => source.log("orders"),
            Side::Journal => source.journal("orders"),
            Side::Wal => return Relaying::begin(place).await?.end(place).await,
        };
        let feed = Arc::new(feed.named(FeedName::new("orders")?));
        let settings = FeedSettings { start: Start::Now, ..FeedSettings::default() };
        let host = Host::new("bench", Arc::new(place.store().await?));
        Ok(host.feed_with(feed, Handling::AtLeastOnce(Arc::new(Nothing)), settings).run_once().await?)
    }
}

/// One side, and the most that its writers reached.
struct Measured {
    side: Side,
    place: Place,
    best: f64,
}

impl Measured {
    /// One round of writing. By the log, the relay runs, and has nothing left to do before and after it.
    async fn round(&self, from: i64, pairs: i64, rows: i64) -> anyhow::Result<f64> {
        if self.side != Side::Wal {
            return write(&self.place, from, pairs, rows).await;
        }
        let relaying = Relaying::begin(&self.place).await?;
        let reached = write(&self.place, from, pairs, rows).await?;
        relaying.caught_up(&self.place).await?;
        relaying.end(&self.place).await?;
        Ok(reached)
    }
}

/// Measures how many rows a second are written by statements of so many rows.
pub(super) async fn captures(
    server: &Server,
    names: &[&str],
    rows: i64,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let mut sides = Vec::new();
    for side in Side::ALL {
        let name = side.name(rows);
        // PgQ's row is also what a journal's is compared with, and the journal's what the log's is.
        let compared = side == Side::Journal && names.contains(&&*Side::Wal.name(rows));
        let wanted = names.contains(&&*name) || compared || matches!(side, Side::Off | Side::Pgq);
        if wanted && let Some(place) = prepare(server, side, &name, progress).await? {
            sides.push(Measured { side, place, best: 0.0 });
        }
    }
    let pairs =
        (backlog.changes() as i64 / ROUNDS / if rows == 1 { 10 } else { 1 } / (2 * rows * SESSIONS)).max(1);
    for round in 0..ROUNDS {
        let from = EXISTING + 1 + round * pairs * rows * SESSIONS;
        for measured in &mut sides {
            progress(&format!("{}, round {} of {ROUNDS}", measured.side.name(rows), round + 1));
            measured.best = f64::max(measured.best, measured.round(from, pairs, rows).await?);
        }
    }
    let best = |side| sides.iter().find(|measured| measured.side == side).map(|measured| measured.best);
    let limit = best(Side::Off).unwrap_or(f64::NAN);
    let share = |side| best(side).map_or(0.0, |best| best / limit);
    let row = |measured: &Measured| {
        let aim = match measured.side {
            Side::Journal => share(Side::Pgq),
            Side::Wal => share(Side::Journal),
            _ => 0.0,
        };
        Row::new(&measured.side.name(rows), measured.best.round(), "rows/s", limit.round(), aim)
    };
    let found: Vec<Row> = sides.iter().map(row).filter(|row| names.contains(&&*row.name)).collect();
    for measured in sides {
        measured.place.remove().await?;
    }
    Ok(found)
}

async fn prepare(
    server: &Server,
    side: Side,
    name: &str,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Place>> {
    let place = server.place().await?;
    let known = include_str!("../../sql/postgres/pgq_known.sql");
    if side == Side::Pgq && !place.session().await?.query_one(known, &[]).await?.get::<_, bool>(0) {
        progress(&format!("left out {name}: the server has no PgQ (Debian: postgresql-15-pgq3)"));
        place.remove().await?;
        return Ok(None);
    }
    side.install(&place).await?;
    Ok(Some(place))
}

/// Each session inserts so many rows by one statement and updates them by another, so many times. Returns rows a second.
async fn write(place: &Place, from: i64, pairs: i64, rows: i64) -> anyhow::Result<f64> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = place.session().await?;
        let (insert, update) = (session.prepare_cached(INSERT).await?, session.prepare_cached(UPDATE).await?);
        sessions.push((session, insert, update));
    }
    let began = clock::now();
    let mut tasks = Vec::new();
    for (number, (session, insert, update)) in (0..).zip(sessions) {
        let first = from + number * pairs * rows;
        tasks.push(tokio::spawn(async move {
            let mut written = 0;
            for pair in 0..pairs {
                let (from, to) = (first + pair * rows, first + (pair + 1) * rows - 1);
                written += session.execute(&insert, &[&from, &to]).await?;
                written += session.execute(&update, &[&from, &to]).await?;
            }
            anyhow::Ok(written)
        }));
    }
    let mut written = 0;
    for task in tasks {
        written += task.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let expected = 2 * pairs * rows * SESSIONS;
    ensure!(written == expected.cast_unsigned(), "{written} rows were written instead of {expected}");
    Ok(written as f64 / seconds)
}
