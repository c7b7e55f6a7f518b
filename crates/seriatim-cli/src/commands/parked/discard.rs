//! `seriatim parked discard`: drops what cannot be handled, for a reason that is kept.

use seriatim::FeedName;
use seriatim::store::{Discard, Discarding};
use seriatim::value::Key;

use super::{find, known};
use crate::args::ParkedDiscard;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::output::{self, counted};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &ParkedDiscard) -> Result<()> {
    check_reason(arguments)?;
    let (store, feed) = known(config, &arguments.feed).await?;
    let object = find(&*store, &feed.name, &arguments.key).await?;
    let (name, key) = (&feed.name, &object.key);
    let changed = || changed(name, key);
    let first = store.parked_changes(name, key, 1).await?.first().map(|change| change.id);
    let first = first.ok_or_else(changed)?;
    let what = if arguments.tail { Discard::All(first) } else { Discard::First(first) };
    let outcome = store.discard_parked(name, key, what, &arguments.reason).await?;
    tell(name, key, what, object.waiting, outcome)
}

/// It is kept, so it has to say something.
pub(super) fn check_reason(arguments: &ParkedDiscard) -> Result<()> {
    match arguments.reason.trim().is_empty() {
        true => Err(Error::usage("--reason is empty").help("say why: it is kept for whoever asks later")),
        false => Ok(()),
    }
}

/// Somebody else was quicker.
pub(super) fn changed(feed: &FeedName, key: &Key) -> Error {
    Error::failed(format!("feed {feed}: what is parked of {key} changed in the meantime"))
        .help("look at it again with `seriatim parked show`, then run the same command again")
}

/// Says what came of it.
pub(super) fn tell(
    feed: &FeedName,
    key: &Key,
    what: Discard,
    waiting: u64,
    outcome: Discarding,
) -> Result<()> {
    match (outcome, what) {
        (Discarding::Changed, _) => return Err(changed(feed, key)),
        (Discarding::Busy, _) => {
            return Err(Error::failed(format!("feed {feed}: {key} is being tried again just now"))
                .help("run the same command again once it is parked; nothing was dropped"));
        }
        (Discarding::Done(1), Discard::First(first)) => {
            let left = waiting.saturating_sub(1);
            let left = match left {
                0 => String::new(),
                1 => "; 1 later change goes on".to_owned(),
                left => format!("; {left} later changes go on"),
            };
            output::line(format_args!("feed {feed}: change {first} of {key} is dropped{left}"))?;
        }
        (Discarding::Done(dropped), _) => {
            let are = if dropped == 1 { "is" } else { "are" };
            let dropped = counted(dropped, "change");
            output::line(format_args!("feed {feed}: {dropped} of {key} {are} dropped"))?;
        }
    }
    Ok(())
}
