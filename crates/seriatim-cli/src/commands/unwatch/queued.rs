//! `seriatim unwatch` for queues: what they are is in their own database, not in the store.

use seriatim::FeedName;
use seriatim::lease::HostView;
use seriatim::queue::{Backlog, IfEventsWait, Removal};

use super::say;
use crate::config::{Config, QueueConfig};
use crate::databases::QueueBackend;
use crate::error::{Error, Result};

/// Removes the queue, and says whether there was one. With events in it, or workers at it, it is refused, unless it is forced.
pub async fn take_out(database: &dyn QueueBackend, name: &FeedName, force: bool) -> Result<bool> {
    let about = |error: Error| error.about(&format!("feed {name}"));
    let Some(queue) = database.existing_queue(name).await.map_err(about)? else { return Ok(false) };
    if !force {
        refuse_if_worked_on(name, &queue.workers().await?)?;
    }
    let if_events_wait = if force { IfEventsWait::Drop } else { IfEventsWait::Keep };
    match queue.remove(if_events_wait).await? {
        Removal::Removed => Ok(true),
        Removal::NotThere => Ok(false),
        Removal::Waiting(left) => Err(not_empty(name, left)),
    }
}

/// Removes a queue that the config does not name from whichever of its databases has it, and says whether one did.
pub async fn take_out_unknown(config: &Config, name: &str, force: bool) -> Result<bool> {
    let Ok(name) = FeedName::new(name) else { return Ok(false) };
    let mut was_there = false;
    for queues in config.databases().into_iter().filter_map(|database| database.clone().queues()) {
        if take_out(&*queues, &name, force).await? {
            say(&name, &queues, true)?;
            was_there = true;
        }
    }
    Ok(was_there)
}

/// The error for somebody who looks for a queue in the books of a store.
pub fn in_no_store(queues: &[&QueueConfig]) -> Error {
    let names = queues.iter().map(|queue| queue.name.to_string()).collect::<Vec<_>>().join(", ");
    Error::usage(format!("feed {names} is a queue, and no store is registered for queues"))
        .help("leave --store out")
}

fn refuse_if_worked_on(name: &FeedName, workers: &[HostView]) -> Result<()> {
    if workers.is_empty() {
        return Ok(());
    }
    let workers = workers.iter().map(|worker| worker.name.to_string()).collect::<Vec<_>>().join(", ");
    Err(Error::failed(format!("feed {name} cannot be taken out: it is owned by {workers}"))
        .help("stop the host first, or use --force, which drops the events that wait"))
}

fn not_empty(name: &FeedName, left: Backlog) -> Error {
    let Backlog { events, objects, .. } = left;
    Error::failed(format!("feed {name} cannot be taken out: {events} events of {objects} objects wait in it"))
        .help(format!(
            "have them handled with `seriatim run --once {name}` (parked ones with `seriatim parked`), or drop them with --force"
        ))
}
