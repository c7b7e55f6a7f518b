//! `seriatim rewind`: sets a feed back or forward.

use jiff::Timestamp;
use seriatim::change::Position;
use seriatim::lease::{Layout, LeaseView, View};
use seriatim::source::Start;
use seriatim::store::OnRewind;
use seriatim::{Partition, Store};

use super::again;
use super::owners::{SetFree, refuse_if_owned, set_free};
use crate::args::Rewind;
use crate::config::{Config, FeedConfig};
use crate::error::{Error, Result};
use crate::{databases, handlers, output, setup};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Rewind) -> Result<()> {
    let feed = config.feed(&arguments.feed)?;
    let target = target(&arguments.to)?;
    if arguments.again && feed.once.is_none() {
        return Err(Error::usage(format!(
            "--again is for feeds with once = true, and {} has it not",
            feed.name
        ))
        .help("leave it out: all changes after the place run again"));
    }
    let store = match databases::existing_store(&config.store).await? {
        Some(store) => store,
        // It was removed: it is made anew, with checkpoints at the place.
        None if setup::find_lost(feed, None).await?.is_some() => databases::open_store(&config.store).await?,
        None => return Err(never_ran(feed)),
    };
    let view = store.view(std::slice::from_ref(&feed.name)).await?;
    let partition = partition(arguments.partition, feed, &view)?;
    let leases = chosen(&view, partition);
    refuse_while_changing(feed, &view)?;
    if leases.is_empty() {
        return after_a_loss(feed, &*store, &target, partition, &arguments.to).await;
    }
    if !arguments.force {
        refuse_if_owned(leases.iter().copied(), &view, &format!("feed {} cannot be rewound", feed.name))?;
    }
    let place = place(feed, &*store, &target, partition).await;
    let position = place.map_err(|error| error.about(&format!("feed {}", feed.name)))?;
    let parked = match target {
        // Every row is read again, so nothing has to wait behind what failed before.
        Start::Beginning => OnRewind::DropParked,
        _ => OnRewind::KeepParked,
    };
    if target == Start::Beginning && !confirmed(feed, arguments.yes)? {
        return Err(Error::failed(format!("feed {} is left as it is", feed.name)));
    }
    let waiting = store.parked(&feed.name, partition).await?.len();
    let comes_again = matches!(target, Start::Time(_) | Start::Position(_));
    if comes_again && waiting > 0 {
        return Err(parked_comes_again(feed, waiting));
    }
    let was_divided = leases.iter().any(|lease| lease.part.is_some());
    if was_divided && comes_again && feed.once.is_some() && !arguments.again {
        return Err(runs_again(feed));
    }
    let forgotten = match target {
        // At the beginning everything starts afresh, whatever the capture calls the changes that come then.
        Start::Beginning if feed.once.is_some() => Some(again::forget_all(feed, config, partition).await?),
        _ if arguments.again => Some(again::forget_after(feed, config, &leases, &position).await?),
        _ => None,
    };
    let refuse = |waiting| parked_comes_again(feed, waiting);
    let unless_parked: Option<&(dyn Fn(usize) -> Error + Sync)> =
        if comes_again { Some(&refuse) } else { None };
    let how = SetFree { to: Some(&position), parked, force: arguments.force, unless_parked };
    let partitions: Vec<Partition> = leases.iter().map(|lease| lease.id.partition).collect();
    // Before, so that no host takes what comes again for what its sink holds, if this is killed in between. After, for a host that
    // has begun the new generation at the old place.
    handlers::renew(feed, config, &partitions).await?;
    for lease in &leases {
        set_free(&*store, &lease.id, &how).await?;
    }
    handlers::renew(feed, config, &partitions).await?;
    let which = partition.map_or("all partitions".to_owned(), |partition| format!("partition {partition}"));
    output::line(format_args!("feed {}: {which} set to {} (position {position})", feed.name, arguments.to))?;
    if waiting > 0 {
        let fate = if parked == OnRewind::DropParked { "are not parked any more" } else { "stay parked" };
        output::line(format_args!("feed {}: {waiting} objects {fate}", feed.name))?;
    }
    if feed.once.is_some() {
        again::tell(feed, forgotten)?;
    }
    Ok(())
}

/// Warns that all rows come once more, and asks whether that is meant where somebody can answer.
fn confirmed(feed: &FeedConfig, yes: bool) -> Result<bool> {
    let what = format!(
        "feed {}: all rows of {} are handled again: totals that are kept by differences are doubled, unless you empty them first",
        feed.name, feed.table
    );
    if yes || !output::can_ask() {
        tracing::warn!("{what}");
        return Ok(true);
    }
    output::ask(&what)
}

fn target(to: &str) -> Result<Start> {
    match to {
        "beginning" => Ok(Start::Beginning),
        "now" => Ok(Start::Now),
        "" => Err(Error::usage("--to must be beginning, now, a time or a position")),
        text => Ok(match text.parse::<Timestamp>() {
            Ok(time) => Start::Time(time),
            Err(_) => Start::Position(Position::text(text)),
        }),
    }
}

fn partition(given: Option<u32>, feed: &FeedConfig, view: &View) -> Result<Option<Partition>> {
    let numbers: Vec<u32> = match view.leases.is_empty() {
        true => (0..feed.partitions).collect(),
        false => view.leases.iter().map(|lease| lease.id.partition.0).collect(),
    };
    match given {
        Some(partition) if !numbers.contains(&partition) => {
            let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
            Err(Error::usage(format!("feed {} has no partition {partition}", feed.name))
                .help(format!("its partitions are {first} to {last}")))
        }
        given => Ok(given.map(Partition)),
    }
}

/// Old and new partitions, set to the same place, would both handle what comes after it.
fn refuse_while_changing(feed: &FeedConfig, view: &View) -> Result<()> {
    let leases: Vec<&LeaseView> = view.leases.iter().collect();
    if !Layout::of(&leases).is_changing() {
        return Ok(());
    }
    let what = format!("feed {} cannot be rewound while the number of its partitions changes", feed.name);
    Err(Error::failed(what)
        .help("wait until that is done; a running host, or `seriatim run --once`, does it"))
}

/// Changes are remembered with the number of their partition.
fn runs_again(feed: &FeedConfig) -> Error {
    let what = format!(
        "feed {} has once = true, and the number of its partitions was changed: changes from before that would run again",
        feed.name
    );
    Error::failed(what).help("add --again to have all changes after the place run again")
}

fn never_ran(feed: &FeedConfig) -> Error {
    Error::failed(format!("feed {} has never run: there is nothing to rewind", feed.name))
        .help("`start` in its config says where it begins")
}

/// A feed without leases that its source knows, by this store or by another: the store has lost its checkpoints, or is a second
/// one. It gets new ones, at the place.
async fn after_a_loss(
    feed: &FeedConfig,
    store: &dyn Store,
    target: &Start,
    partition: Option<Partition>,
    to: &str,
) -> Result<()> {
    let (capture, consumer) = (databases::capture(feed), setup::consumer(feed, store).await?);
    let (known, books) = (capture.knows(&consumer).await?, capture.registered().await?);
    if partition.is_some() || (!known && books.is_empty()) {
        return Err(never_ran(feed));
    }
    let position = match known {
        true => capture.rewind(&consumer, target).await,
        false => capture.install(&consumer, target).await,
    };
    let position = position.map_err(|error| Error::from(error).about(&format!("feed {}", feed.name)))?;
    store.ensure(&feed.name, feed.partitions, &position).await?;
    output::line(format_args!(
        "feed {}: the store had no checkpoints of it; all partitions set to {to} (position {position})",
        feed.name
    ))?;
    for other in books.iter().filter(|other| other.store != consumer.store) {
        output::line(format_args!(
            "feed {0}: its source also knows it by the store {1}, and keeps what that one has not handled; `seriatim unwatch {0} --store {1}` takes it out, if that store is lost",
            feed.name, other.store
        ))?;
    }
    Ok(())
}

fn chosen(view: &View, partition: Option<Partition>) -> Vec<&LeaseView> {
    let wanted = |lease: &&LeaseView| partition.is_none_or(|partition| lease.id.partition == partition);
    view.leases.iter().filter(wanted).collect()
}

async fn place(
    feed: &FeedConfig,
    store: &dyn Store,
    target: &Start,
    partition: Option<Partition>,
) -> Result<Position> {
    let (capture, consumer) = (databases::capture(feed), setup::consumer(feed, store).await?);
    let known = capture.knows(&consumer).await?;
    match target {
        target if known => Ok(capture.rewind(&consumer, target).await?),
        // The source was replaced or restored: the feed starts afresh on it, and no checkpoint of before means anything.
        Start::Beginning | Start::Now | Start::Time(_) if partition.is_none() => {
            Ok(capture.install(&consumer, target).await?)
        }
        _ => Err(Error::failed("the source does not know it: the source was replaced or restored")
            .help(format!("`seriatim rewind {} --to beginning` starts it afresh on this source", feed.name))),
    }
}

/// Of an object that stays parked, what lies after the place would be handled twice: when it is retried, and when it is read again.
fn parked_comes_again(feed: &FeedConfig, waiting: usize) -> Error {
    let what = format!(
        "feed {} cannot be rewound to there: {waiting} objects are parked, and what of them comes again would be handled twice",
        feed.name
    );
    Error::failed(what).help(format!(
        "`seriatim parked retry {0} --all` or `parked discard` first; `--to beginning` lets them go, `--to now` keeps them",
        feed.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_start_a_time_or_a_position() {
        assert_eq!(target("beginning").unwrap(), Start::Beginning);
        assert_eq!(target("now").unwrap(), Start::Now);
        let time = "2026-11-15T08:00:00Z";
        assert_eq!(target(time).unwrap(), Start::Time(time.parse().unwrap()));
        assert_eq!(target("17:3").unwrap(), Start::Position(Position::text("17:3")));
        assert!(target("").is_err());
    }
}
