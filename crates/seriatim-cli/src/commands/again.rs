//! What a rewind does about changes that the ledger of their feed remembers.

use seriatim::Partition;
use seriatim::once::{Ledger, Listing, Record, State};

use crate::config::{Config, FeedConfig, LedgerPlace};
use crate::error::Result;
use crate::{databases, handlers, output};

/// Has the feed's changes run again, though they are done. Before the rewind: a host that takes the feed over at once must not find
/// them in the ledger. Returns how many.
pub async fn forget(feed: &FeedConfig, config: &Config, partition: Option<Partition>) -> Result<u64> {
    let place = LedgerPlace::in_store(&config.store);
    let Some(ledger) = databases::existing_ledger(&place).await? else { return Ok(0) };
    let Ok(processor) = seriatim::once::ProcessorId::new(&handlers::processor(&feed.name)) else {
        return Ok(0);
    };
    let listing = Listing { processor: Some(processor), state: Some(State::Completed), ..Listing::default() };
    let (mut forgotten, mut from) = (0, None);
    loop {
        let page = ledger.list(&listing, from.as_ref()).await?;
        for record in page.records.iter().filter(|record| is_of(record, partition)) {
            forgotten += u64::from(forget_one(&*ledger, record).await?);
        }
        from = page.next;
        if from.is_none() {
            return Ok(forgotten);
        }
    }
}

async fn forget_one(ledger: &dyn Ledger, record: &Record) -> Result<bool> {
    Ok(ledger.forget(&record.signal, &record.run).await?)
}

/// A change's id in the ledger begins with its partition.
fn is_of(record: &Record, partition: Option<Partition>) -> bool {
    let place = record.signal.id.as_str().split('/').next();
    partition.is_none_or(|partition| place == Some(partition.to_string().as_str()))
}

/// Says which changes the rewound feed will handle.
pub fn tell(feed: &FeedConfig, forgotten: Option<u64>) -> Result<()> {
    let name = &feed.name;
    match forgotten {
        Some(count) => {
            output::line(format_args!("feed {name}: {count} handled changes are forgotten and run again"))
        }
        None => output::line(format_args!(
            "feed {name}: it has once = true: changes that its ledger remembers as handled do not run again; with --again they do"
        )),
    }?;
    Ok(())
}
