//! Draining a journal on PostgreSQL, checkpointed in PostgreSQL, with a handler that does nothing, against a binary COPY of the
//! same rows of which the same driver reads every column.

use std::pin::pin;
use std::sync::Arc;

use anyhow::ensure;
use futures_util::TryStreamExt as _;
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim_postgres::tokio_postgres;
use seriatim_postgres::tokio_postgres::binary_copy::{BinaryCopyOutRow, BinaryCopyOutStream};
use seriatim_postgres::tokio_postgres::types::Type;

use super::place::{self, Place};
use crate::{Backlog, Nothing, Row, machine};

/// How many times each side is measured; the best of each counts, as the least disturbed.
const ROUNDS: usize = 3;

/// The columns of a journal (`id`, `xid`, `op`, `at`, `hash`, `before`, `after`), as what they are on the wire.
const COLUMNS: [Type; 7] =
    [Type::INT8, Type::INT8, Type::CHAR, Type::INT8, Type::INT4, Type::TEXT, Type::TEXT];

/// Measures it.
pub(super) async fn journal_drain(
    place: &Place,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Row> {
    // Each round is a consumer of its own: the journal keeps what the last of them has not read.
    for round in 1..=ROUNDS {
        place.follow(&feed(round), PARTITIONS).await?;
    }
    progress(&format!("writing {} changes", backlog.changes()));
    let session = place.session().await?;
    place::write(&session, backlog.changes()).await?;
    session.batch_execute("vacuum analyze").await?;
    let (mut limit, mut value, mut peak) = (0.0, 0.0, None);
    for round in 1..=ROUNDS {
        progress(&format!("{} changes, round {round} of {ROUNDS}", backlog.changes()));
        limit = f64::max(limit, bare_copy(place, backlog).await?);
        machine::forget_peak();
        value = f64::max(value, drain(place, round, backlog).await?);
        peak = machine::peak_mib();
    }
    let row = Row::new("journal-drain-postgres", value.round(), "changes/s", limit.round(), 0.5);
    Ok(Row { peak_mib: peak, ..row })
}

/// Into how many partitions the feed is sliced: as many as it is when nothing is said.
const PARTITIONS: u32 = 16;

fn feed(round: usize) -> String {
    format!("round-{round}")
}

async fn drain(place: &Place, round: usize, backlog: Backlog) -> anyhow::Result<f64> {
    let store = place.store().await?;
    let nothing = Handling::AtLeastOnce(Arc::new(Nothing));
    let began = clock::now();
    let handled = place.drain(&feed(round), PARTITIONS, store, nothing, FeedSettings::default()).await?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(handled == backlog.changes(), "{handled} changes were handled instead of {}", backlog.changes());
    Ok(handled as f64 / seconds)
}

async fn bare_copy(place: &Place, backlog: Backlog) -> anyhow::Result<f64> {
    let session = place.session().await?;
    let ring: String = session.query_one(include_str!("../../sql/postgres/ring.sql"), &[]).await?.get(0);
    let copy = format!("copy {ring} (id, xid, op, at, hash, before, after) to stdout (format binary)");
    let began = clock::now();
    let rows = BinaryCopyOutStream::new(session.copy_out(&*copy).await?, &COLUMNS);
    let (mut rows, mut count, mut bytes) = (pin!(rows), 0, 0);
    while let Some(row) = rows.try_next().await? {
        bytes += every_column(&row)?;
        count += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    ensure!(
        count == backlog.changes() && bytes > 0,
        "the journal has {count} rows instead of {}",
        backlog.changes()
    );
    Ok(count as f64 / seconds)
}

/// Takes every value out of a row. Returns how many bytes they are.
fn every_column(row: &BinaryCopyOutRow) -> Result<usize, tokio_postgres::Error> {
    let numbers = [row.try_get::<i64>(0)?, row.try_get::<i64>(1)?, row.try_get::<i64>(3)?];
    let (op, hash): (i8, Option<i32>) = (row.try_get(2)?, row.try_get(4)?);
    let images: [Option<&str>; 2] = [row.try_get(5)?, row.try_get(6)?];
    std::hint::black_box((numbers, op, hash));
    Ok(29 + images.into_iter().flatten().map(str::len).sum::<usize>())
}
