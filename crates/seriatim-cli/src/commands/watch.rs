//! `seriatim watch`: installs what a feed's capture needs in its source.

use seriatim::Store;
use seriatim::source::Feed;
use seriatim_sqlite::SqliteStore;

use crate::args::Watch;
use crate::config::{Config, FeedConfig};
use crate::error::{Error, Result};
use crate::{output, setup};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Watch) -> Result<()> {
    let feeds = config.chosen(arguments.feed.as_slice())?;
    if arguments.print {
        return print(&feeds).await;
    }
    let store = setup::open_store(config).await?;
    for feed in feeds {
        install(feed, &store).await.map_err(|error| error.about(&format!("feed {}", feed.name)))?;
        let (capture, table) = (feed.capture.as_str(), &feed.table);
        output::line(format_args!(
            "feed {}: its {capture} of {table} is installed in {}",
            feed.name, feed.database
        ))?;
    }
    Ok(())
}

async fn print(feeds: &[&FeedConfig]) -> Result<()> {
    for feed in feeds {
        let sql = setup::capture(feed).install_sql().await.map_err(Error::from);
        let sql = sql.map_err(|error| error.about(&format!("feed {}", feed.name)))?;
        output::line(format_args!("-- feed {}, in {}\n{}", feed.name, feed.database, sql.trim_end()))?;
    }
    Ok(())
}

async fn install(feed: &FeedConfig, store: &SqliteStore) -> Result<()> {
    let capture = setup::capture(feed);
    let consumer = setup::consumer(feed, store).await?;
    let has_checkpoints = store.feeds().await?.contains(&feed.name);
    if has_checkpoints && !capture.knows(&consumer).await? {
        let what = "the store has checkpoints of it, but the source does not know it: the source was replaced or restored";
        let help = format!("`seriatim rewind {} --to beginning` starts it afresh on this source", feed.name);
        return Err(Error::failed(what).help(help));
    }
    let start = capture.install(&consumer, &feed.start).await?;
    store.ensure(&feed.name, feed.partitions, &start).await?;
    Ok(())
}
