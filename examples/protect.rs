//! A signal that arrives twice, in two places at once, takes effect once: everybody gets the one result.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use seriatim::once::{Once, Outcome};
use seriatim_sqlite::SqliteLedger;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(folder.path().join("signals.db")).await?;
    let once = Once::new(Arc::new(ledger), "mailer")
        .max_processing_time(Duration::from_secs(30))
        .expires_after(Duration::from_secs(30 * 24 * 3600));

    // In a service these would be two processes that received the same signal.
    let (one, other) =
        tokio::join!(receive(&once, "payment-42", "one"), receive(&once, "payment-42", "the other"));
    one?;
    other?;
    // Long after: it is still known.
    receive(&once, "payment-42", "a late one").await
}

async fn receive(once: &Once, signal: &str, who: &str) -> anyhow::Result<()> {
    match once.protect(signal, || send_mail(signal)).await? {
        Outcome::Ran(receipt) => println!("{who} sent the mail: {receipt}"),
        Outcome::Duplicate(receipt) => println!("{who} did not need to: {receipt}"),
    }
    Ok(())
}

async fn send_mail(signal: &str) -> Result<String, Infallible> {
    println!("sending a mail about {signal}");
    Ok(format!("receipt for {signal}"))
}
