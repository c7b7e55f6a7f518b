//! `seriatim unwatch`: takes what a feed's capture needed out of its source again.

use seriatim::Store;

use super::owners::refuse_if_owned;
use crate::args::Unwatch;
use crate::config::{Config, FeedConfig};
use crate::error::Result;
use crate::{databases, output, setup};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Unwatch) -> Result<()> {
    let feeds = config.chosen(arguments.feed.as_slice())?;
    let store = databases::existing_store(&config.store).await?;
    for feed in feeds {
        let was_watched = match &store {
            Some(store) => take_out(feed, &**store, arguments.force).await?,
            None => false,
        };
        match was_watched {
            true => output::line(format_args!(
                "feed {}: taken out of {}, and forgotten",
                feed.name, feed.database
            ))?,
            false => output::line(format_args!("feed {}: was not watched", feed.name))?,
        }
    }
    Ok(())
}

async fn take_out(feed: &FeedConfig, store: &dyn Store, force: bool) -> Result<bool> {
    let view = store.view(std::slice::from_ref(&feed.name)).await?;
    if !force {
        refuse_if_owned(&view.leases, &view, &format!("feed {} cannot be taken out", feed.name))?;
    }
    let was_known = match leave_source(feed, store).await {
        Err(error) if force => {
            tracing::warn!(help = error.remedy(), "{}; forgetting the feed all the same", error.sentence());
            false
        }
        left => left.map_err(|error| error.about(&format!("feed {}", feed.name)))?,
    };
    store.forget(&feed.name).await?;
    Ok(was_known || !view.leases.is_empty())
}

/// Takes the consumer out of the source's books, and says whether it was in them.
async fn leave_source(feed: &FeedConfig, store: &dyn Store) -> Result<bool> {
    let (capture, consumer) = (databases::capture(feed), setup::consumer(feed, store).await?);
    let was_known = capture.knows(&consumer).await?;
    capture.close(&consumer).await?;
    Ok(was_known)
}
