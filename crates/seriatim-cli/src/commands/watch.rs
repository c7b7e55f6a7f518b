//! `seriatim watch`: installs what a feed's capture needs in its source.

use crate::args::Watch;
use crate::config::{CaptureKind, Config, FeedConfig};
use crate::error::{Error, Result};
use crate::{databases, handlers, output, setup};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Watch) -> Result<()> {
    let feeds = config.chosen(arguments.feed.as_slice())?;
    if arguments.print {
        return print(&feeds).await;
    }
    // Before the store is made: it may be meant to be in a source's file, and that must not come to be by a slip.
    for feed in &feeds {
        feed.database.exists(feed)?;
    }
    let store = databases::open_store(&config.store).await?;
    for feed in feeds {
        if feed.capture == CaptureKind::Wal {
            // The log may not carry what the handler needs.
            handlers::check(feed, config)
                .await
                .map_err(|error| error.about(&format!("feed {}", feed.name)))?;
        }
        setup::watch(feed, &*store).await.map_err(|error| error.about(&format!("feed {}", feed.name)))?;
        let (capture, table) = (feed.capture.as_str(), &feed.table);
        let installed =
            if feed.capture == CaptureKind::Window { "needs nothing installed" } else { "is installed" };
        output::line(format_args!(
            "feed {}: its {capture} of {table} {installed} in {}",
            feed.name, feed.database
        ))?;
    }
    Ok(())
}

async fn print(feeds: &[&FeedConfig]) -> Result<()> {
    for feed in feeds {
        let sql = databases::capture(feed).install_sql().await.map_err(Error::from);
        let sql = sql.map_err(|error| error.about(&format!("feed {}", feed.name)))?;
        output::line(format_args!("-- feed {}, in {}\n{}", feed.name, feed.database, sql.trim_end()))?;
    }
    Ok(())
}
