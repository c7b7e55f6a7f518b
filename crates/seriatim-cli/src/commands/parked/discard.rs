//! `seriatim parked discard`: drops what cannot be handled, for a reason that is kept.

use seriatim::store::{Discard, Discarding};

use super::{find, known};
use crate::args::ParkedDiscard;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::output;

/// Runs the command.
pub async fn execute(config: &Config, arguments: &ParkedDiscard) -> Result<()> {
    if arguments.reason.trim().is_empty() {
        return Err(Error::usage("--reason is empty").help("say why: it is kept for whoever asks later"));
    }
    let (store, feed) = known(config, &arguments.feed).await?;
    let object = find(&*store, &feed.name, &arguments.key).await?;
    let (name, key) = (&feed.name, &object.key);
    let changed = || {
        Error::failed(format!("feed {name}: what is parked of {key} changed in the meantime"))
            .help("look at it again with `seriatim parked show`, then run the same command again")
    };
    let first = store.parked_changes(name, key, 1).await?.first().map(|change| change.id);
    let first = first.ok_or_else(changed)?;
    let what = if arguments.tail { Discard::All(first) } else { Discard::First(first) };
    match store.discard_parked(name, key, what, &arguments.reason).await? {
        Discarding::Changed => Err(changed()),
        Discarding::Busy => Err(Error::failed(format!("feed {name}: {key} is being tried again just now"))
            .help("run the same command again once it is parked; nothing was dropped")),
        Discarding::Done(1) if !arguments.tail => {
            let left = object.waiting.saturating_sub(1);
            output::line(format_args!(
                "feed {name}: change {first} of {key} is dropped; {left} later changes go on"
            ))?;
            Ok(())
        }
        Discarding::Done(dropped) => {
            output::line(format_args!("feed {name}: {dropped} changes of {key} are dropped"))?;
            Ok(())
        }
    }
}
