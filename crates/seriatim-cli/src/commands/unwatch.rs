//! `seriatim unwatch`: takes what a feed's capture needed out of its source again, and removes queues.

mod purge;
mod queued;
mod stray;

use std::fmt::Display;

use jiff::SignedDuration;
use seriatim::name::StoreId;
use seriatim::source::Consumer;
use seriatim::{FeedName, Store};

use super::owners::refuse_if_owned;
use crate::args::Unwatch;
use crate::config::{CaptureKind, Config, FeedConfig};
use crate::error::{Error, Result};
use crate::{databases, handlers, output, setup};

/// Running hosts tell a source of a feed more often than this.
const SILENT: SignedDuration = SignedDuration::from_mins(1);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Unwatch) -> Result<()> {
    if arguments.purge {
        return purge::execute(config, arguments.force).await;
    }
    if let Some(name) = arguments.feed.as_ref().filter(|name| !config.has(name)) {
        return take_out_unknown(config, name, arguments).await;
    }
    let feeds = config.chosen(arguments.feed.as_slice())?;
    let queues = config.chosen_queues(arguments.feed.as_slice());
    let store = databases::existing_store(&config.store).await?;
    if let Some(id) = &arguments.store {
        let id = StoreId::new(id).map_err(|bad| Error::usage(bad.to_string()))?;
        let own = match &store {
            Some(store) => store.identity().await? == id,
            None => false,
        };
        if !own {
            let feed = feeds.first().ok_or_else(|| queued::in_no_store(&queues))?;
            return of_lost_store(feed, id, arguments.force).await;
        }
    }
    for feed in feeds {
        let was_watched = match &store {
            Some(store) => take_out(feed, config, &**store, arguments.force).await?,
            None => false,
        };
        say(&feed.name, &feed.database, was_watched)?;
    }
    for queue in queues {
        let was_there = queued::take_out(&*queue.database, &queue.name, arguments.force).await?;
        say(&queue.name, &queue.database, was_there)?;
    }
    Ok(())
}

/// A feed or queue that the config does not name, from wherever it is known.
async fn take_out_unknown(config: &Config, name: &str, arguments: &Unwatch) -> Result<()> {
    let of = arguments.store.as_deref().map(StoreId::new).transpose();
    let of = of.map_err(|bad| Error::usage(bad.to_string()))?;
    let store = databases::existing_store(&config.store).await?;
    let was_feed = stray::take_out(config, name, store.as_ref(), of.as_ref(), arguments.force).await?;
    let was_queue = of.is_none() && queued::take_out_unknown(config, name, arguments.force).await?;
    if was_feed || was_queue { Ok(()) } else { Err(config.unknown_feed(name)) }
}

fn say(feed: &FeedName, database: &impl Display, was_watched: bool) -> Result<()> {
    match was_watched {
        true => output::line(format_args!("feed {feed}: taken out of {database}, and forgotten"))?,
        false => output::line(format_args!("feed {feed}: was not watched"))?,
    }
    Ok(())
}

async fn take_out(feed: &FeedConfig, config: &Config, store: &dyn Store, force: bool) -> Result<bool> {
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
    // A feed that is set up anew under this name draws its ids anew.
    handlers::renew_all(&feed.name, config).await?;
    store.forget(&feed.name).await?;
    Ok(was_known || !view.leases.is_empty())
}

/// Takes the consumer of a store that is lost out of the source's books: nobody else can.
async fn of_lost_store(feed: &FeedConfig, store: StoreId, force: bool) -> Result<()> {
    let capture = databases::capture(feed);
    let books = capture.registered().await?;
    let Some(known) = books.iter().find(|known| known.store == store) else {
        let what = format!("feed {}: its source does not know it by the store {store}", feed.name);
        let others = books.iter().map(|known| known.store.to_string()).collect::<Vec<_>>().join(", ");
        let help =
            if others.is_empty() { "by no other either".to_owned() } else { format!("it knows: {others}") };
        return Err(Error::failed(what).help(help));
    };
    let silent = seriatim::clock::wall().duration_since(known.seen_at);
    if !force && silent < SILENT {
        let what = format!(
            "feed {}: hosts of the store {store} may still run: it was last heard of at {}",
            feed.name, known.seen_at
        );
        return Err(Error::failed(what).help("stop them and try again in a minute, or use --force"));
    }
    capture.close(&Consumer { feed: feed.name.clone(), store: store.clone() }).await?;
    output::line(format_args!("feed {}: taken out of {} for the store {store}", feed.name, feed.database))?;
    Ok(())
}

/// Takes the consumer out of the source's books, and says whether it was in them.
async fn leave_source(feed: &FeedConfig, store: &dyn Store) -> Result<bool> {
    let (capture, consumer) = (databases::capture(feed), setup::consumer(feed, store).await?);
    let was_known = capture.knows(&consumer).await?;
    capture.close(&consumer).await?;
    // A window is in no books: only its tracker tells whether it was ever watched.
    Ok(was_known && feed.capture != CaptureKind::Window)
}
