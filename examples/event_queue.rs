//! A producer pushes events in the transaction of its own write; a worker sends them on; a consumer that gets them late, twice and
//! in the wrong order applies each once, in order.

use std::sync::{Arc, Mutex};

use seriatim::Failure;
use seriatim::name::FeedName;
use seriatim::order::{Gate, JsonLines, Limits, MemoryGateState};
use seriatim::queue::{Body, Event};
use seriatim_sqlite::SqliteQueue;
use seriatim_sqlite::rusqlite::Connection;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("catalogue.db");
    let queue = SqliteQueue::open(&path, &FeedName::new("works")?).await?;
    let mut catalogue = Connection::open(&path)?;
    catalogue.execute_batch("create table work (id integer primary key, title text)")?;

    // Both the row and its events, or neither of them.
    let transaction = catalogue.transaction()?;
    transaction.execute("insert into work values (1, 'Emma')", [])?;
    queue.push_in(
        &transaction,
        "work:1",
        &[Body::from(r#"{"created":1}"#), Body::from(r#"{"title":"Emma"}"#)],
    )?;
    transaction.commit()?;

    // A service would call `run_until(send, shutdown)`, in as many processes as it likes.
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let wire = Arc::clone(&sent);
    let send = move |event: Event| {
        wire.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event.to_json());
        async { Ok::<(), Failure>(()) }
    };
    queue.worker("w1").drain(send).await?;

    // The network hands them over backwards, and one of them twice.
    let sent = sent.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    let arriving = sent.iter().rev().chain(&sent);
    let mut gate = JsonLines::new(Gate::open(MemoryGateState::default(), Limits::default()).await?);
    for line in arriving {
        let mut apply = gate.next(line).await?;
        while let Some(line) = apply {
            println!("{line}");
            apply = gate.applied(&line).await?;
        }
    }
    Ok(())
}
