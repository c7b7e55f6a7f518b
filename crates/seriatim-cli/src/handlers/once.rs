//! A ledger before a handler: `once = true`.

use std::sync::Arc;

use seriatim::FeedName;
use seriatim::handler::Handler;
use seriatim::once::{Once, OnceHandler, ProcessorId};

use crate::config::{Config, OnceConfig};
use crate::databases;
use crate::error::{Error, Result};

/// What `run` says of a feed with a ledger.
pub const WITH_A_LEDGER: &str = "once: a change that was handled is not handled again; one whose host died over it runs again, or is unknown";

/// The processor under which the ledger remembers a feed's changes.
pub fn processor(feed: &FeedName) -> String {
    format!("feed:{feed}")
}

/// The handler, behind the ledger in the store where the feed wants one.
pub(super) async fn remembered(
    handler: Arc<dyn Handler>,
    feed: &FeedName,
    once: Option<&OnceConfig>,
    config: &Config,
) -> Result<Arc<dyn Handler>> {
    let Some(settings) = once else { return Ok(handler) };
    let processor = processor(feed);
    ProcessorId::new(&processor).map_err(|_| {
        Error::usage(format!("feed {feed} has once = true, and its name is too long for that"))
    })?;
    let ledger = databases::open_ledger(&config.store).await?;
    let once = Once::new(ledger, &processor)
        // A host that gives no sign of life for so long is dead, to the ledger as to the leases.
        .max_processing_time(config.lease.expire)
        .expires_after(settings.expires_after)
        .on_timeout(settings.on_timeout);
    Ok(Arc::new(OnceHandler::new(handler, once)))
}
