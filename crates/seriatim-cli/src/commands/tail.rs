//! `seriatim tail`: prints a feed's changes as they come, without owning anything.

use std::io::Write;
use std::time::Duration;

use seriatim::Partition;
use seriatim::change::{Change, Position};
use seriatim::source::{Cursor, Feed, Install, Limit, Slice, SourceError};

use crate::args::Tail;
use crate::config::{CaptureKind, Config};
use crate::error::{Error, Result};
use crate::{databases, output, unix_signals};

/// How much is read at once.
const LIMIT: Limit = Limit { rows: 1_000, bytes: 4 << 20 };

/// How long to wait when there is nothing new and the source cannot tell when there will be.
const IDLE: Duration = Duration::from_secs(1);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Tail) -> Result<()> {
    let feed = config.feed(&arguments.feed)?;
    let capture = databases::capture(feed);
    let shutdown = unix_signals::shutdown()?;
    let subject = format!("feed {}", feed.name);
    let tail = async {
        let from = start(&*capture, &arguments.from).await?;
        follow(&*capture, feed.capture, from, arguments.limit.unwrap_or(u64::MAX)).await
    };
    tokio::select! {
        done = tail => done.map_err(|error| error.about(&subject)),
        () = shutdown => Ok(()),
    }
}

async fn start(capture: &dyn Install, from: &str) -> Result<Position> {
    match from {
        "now" => Ok(capture.newest().await?),
        "beginning" => Ok(capture.oldest().await?),
        "" => Err(Error::usage("--from must be beginning, now or a position")),
        position => {
            let position = Position::text(position);
            let refused =
                |error| Error::from(error).help("--from takes a position that is still retained, or now");
            capture.validate(&position).await.map_err(refused)?;
            Ok(position)
        }
    }
}

/// Prints what comes after a position, `left` changes at most.
async fn follow(feed: &dyn Feed, capture: CaptureKind, from: Position, mut left: u64) -> Result<()> {
    let partitions = (0..feed.partitions()).map(Partition);
    let mut cursors: Vec<Cursor> =
        partitions.map(|partition| Cursor { partition, after: from.clone() }).collect();
    while left > 0 {
        let slices = match feed.read(&cursors, LIMIT).await {
            Ok(slices) => slices,
            Err(error @ SourceError::Unavailable { .. }) => {
                tracing::warn!("{error}; trying again");
                tokio::time::sleep(IDLE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let idle = slices.len() == cursors.len() && slices.iter().all(|slice| slice.caught_up);
        advance(&mut cursors, &slices);
        left -= print(in_order(slices, capture), left)?;
        if idle && left > 0 {
            feed.wait(IDLE).await;
        }
    }
    Ok(())
}

/// Moves the cursors that were served on, and behind those that were not.
fn advance(cursors: &mut [Cursor], slices: &[Slice]) {
    let served = |cursor: &Cursor| slices.iter().find(|slice| slice.partition == cursor.partition);
    cursors.sort_by_key(|cursor| served(cursor).is_some());
    for cursor in cursors {
        if let Some(slice) = served(cursor) {
            cursor.after = slice.upto.clone();
        }
    }
}

/// The changes of all partitions, in the order in which they were noticed.
fn in_order(slices: Vec<Slice>, capture: CaptureKind) -> Vec<Change> {
    let mut changes: Vec<Change> = slices.into_iter().flat_map(|slice| slice.changes).collect();
    match capture {
        // Its ids tell versions apart, and have no order.
        CaptureKind::Window => changes.sort_by_key(|change| change.at),
        CaptureKind::Journal | CaptureKind::Log | CaptureKind::Wal => changes.sort_by_key(|change| change.id),
    }
    changes
}

/// Writes at most `most` of the changes, and returns how many.
fn print(changes: Vec<Change>, most: u64) -> Result<u64> {
    let mut out = output::stdout();
    let mut printed = 0;
    for change in changes.iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
        writeln!(out, "{}", change.to_json())?;
        printed += 1;
    }
    out.flush()?;
    Ok(printed)
}
