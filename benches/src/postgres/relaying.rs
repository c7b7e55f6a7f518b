//! A relay in this process: it appends to the journal what the server's log has of `orders`.

use std::time::Duration;

use anyhow::ensure;
use seriatim::change::Position;
use seriatim::name::StoreId;
use seriatim::source::{Consumer, Cursor, Feed as _, Limit, Start};
use seriatim::{FeedName, Partition, clock};
use seriatim_postgres::Capture;

use super::place::{Noticed, Place};

const WORDS: &str = include_str!("../../sql/postgres/relay_words.sql");
const PASSED: &str = include_str!("../../sql/postgres/relay_passed.sql");
const ACTIVE: &str = include_str!("../../sql/postgres/relay_active.sql");

/// How long anything about a relay may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A relay that runs for as long as this lives.
pub(super) struct Relaying {
    _capture: Capture,
}

impl Relaying {
    /// Makes what it needs, if it is not there. Nobody relays yet.
    pub(super) async fn install(place: &Place) -> anyhow::Result<Position> {
        let capture = place.orders(Noticed::Wal)?.partitions(1);
        Ok(capture.open(&consumer()?, &Start::Now).await?)
    }

    /// Starts it, and waits until it has nothing left to do.
    pub(super) async fn begin(place: &Place) -> anyhow::Result<Self> {
        let relaying = Relaying::start(place).await?;
        relaying.caught_up(place).await?;
        Ok(relaying)
    }

    /// Starts it, and returns as soon as it reads the slot.
    pub(super) async fn start(place: &Place) -> anyhow::Result<Self> {
        let capture = place.orders(Noticed::Wal)?.partitions(1);
        let after = capture.open(&consumer()?, &Start::Now).await?;
        // A consumer that reads is what makes it run.
        let cursor = Cursor { partition: Partition(0), after };
        capture.read(&[cursor], Limit { rows: 1, bytes: 1 }).await?;
        until(place, ACTIVE, true).await?;
        Ok(Relaying { _capture: capture })
    }

    /// Waits until everything that is committed by now is in the journal.
    pub(super) async fn caught_up(&self, place: &Place) -> anyhow::Result<()> {
        passed(place, &words(place).await?).await
    }

    /// Ends it, and waits until nobody reads the slot: a database with a slot that is read cannot be dropped.
    pub(super) async fn end(self, place: &Place) -> anyhow::Result<()> {
        drop(self);
        until(place, ACTIVE, false).await
    }
}

fn consumer() -> anyhow::Result<Consumer> {
    Ok(Consumer { feed: FeedName::new("orders")?, store: StoreId::new("bench")? })
}

/// Puts words into the log, which the relay notes at once. Returns their place.
pub(super) async fn words(place: &Place) -> anyhow::Result<String> {
    Ok(place.session().await?.query_one(WORDS, &[]).await?.get(0))
}

/// Waits until everything up to this place of the log is in the journal.
pub(super) async fn passed(place: &Place, at: &str) -> anyhow::Result<()> {
    until(place, &PASSED.replace("{at}", at), true).await
}

async fn until(place: &Place, sql: &str, expected: bool) -> anyhow::Result<()> {
    let session = place.session().await?;
    let statement = session.prepare(sql).await?;
    let began = clock::now();
    while session.query_one(&statement, &[]).await?.get::<_, bool>(0) != expected {
        ensure!(began.elapsed() < PATIENCE, "the relay does not go on");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
