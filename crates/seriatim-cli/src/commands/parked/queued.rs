//! `seriatim parked` for queues: their objects are parked in the queue itself, not in the store.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim::name::ObjectName;
use seriatim::queue::{DiscardedEvents, ObjectView, Queue};
use seriatim::store::{Discard, ParkedObject};
use seriatim::value::{Key, Value};
use seriatim::{FeedName, Partition};

use super::super::run::queues;
use super::{discard, is_meant, list, not_parked, parse_key, retry};
use crate::args::{Parked, ParkedDiscard, ParkedRetry, ParkedShow};
use crate::config::{Config, QueueConfig};
use crate::error::{Error, Result};
use crate::output::{self, BAD, TITLE, styled};
use crate::{databases, handlers, setup, unix_signals};

/// How often it looks whether they are sent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the command for a queue.
pub async fn execute(config: &Config, queue: &QueueConfig, arguments: &Parked) -> Result<()> {
    let Some(opened) = databases::existing_queue(queue).await? else {
        return match arguments {
            Parked::List(arguments) => list::tell(&[], 0, arguments),
            _ => Err(Error::failed(format!("feed {} has no queue yet: nothing of it is parked", queue.name))),
        };
    };
    match arguments {
        Parked::List(arguments) => list::tell(&parked(&*opened, &queue.name).await?, 0, arguments),
        Parked::Show(arguments) => show(queue, &*opened, arguments).await,
        Parked::Retry(arguments) => retry_all(config, queue, &opened, arguments).await,
        Parked::Discard(arguments) => discard(queue, &*opened, arguments).await,
    }
}

/// The parked objects of a queue, as those of other feeds are shown.
pub async fn parked(queue: &dyn Queue, feed: &FeedName) -> Result<Vec<ParkedObject>> {
    let mut objects = Vec::new();
    for name in queue.parked().await? {
        objects.extend(queue.inspect(&name).await?.and_then(|view| parked_object(feed, &view)));
    }
    Ok(objects)
}

fn key(object: &ObjectName) -> Key {
    Key::of("object", Value::Text(object.as_str().into()))
}

fn parked_object(feed: &FeedName, view: &ObjectView) -> Option<ParkedObject> {
    let parked = view.parked.as_ref()?;
    Some(ParkedObject {
        feed: feed.clone(),
        partition: Partition(0),
        key: key(&view.object),
        waiting: view.waiting + view.sending.len() as u64,
        bytes: 0,
        failure: parked.failure.clone(),
        since: parked.since,
    })
}

/// The parked objects that somebody means: the one of this key, or all.
async fn meant(queue: &dyn Queue, feed: &FeedName, wanted: Option<&str>) -> Result<Vec<ObjectView>> {
    let wanted = wanted.map(parse_key).transpose()?;
    let mut views = Vec::new();
    for name in queue.parked().await? {
        if wanted.as_ref().is_none_or(|wanted| is_meant(&key(&name), wanted)) {
            views.extend(queue.inspect(&name).await?.filter(|view| view.parked.is_some()));
        }
    }
    match (&wanted, views.is_empty()) {
        (Some(wanted), true) => Err(not_parked(feed, wanted)),
        _ => Ok(views),
    }
}

async fn show(queue: &QueueConfig, opened: &dyn Queue, arguments: &ParkedShow) -> Result<()> {
    let wanted = parse_key(&arguments.key)?;
    let objects = parked(opened, &queue.name).await?;
    let object = objects.iter().find(|object| is_meant(&object.key, &wanted));
    let mut discarded = opened.discarded(1000).await?;
    discarded.retain(|discarded| is_meant(&key(&discarded.object), &wanted));
    if object.is_none() && discarded.is_empty() {
        return Err(not_parked(&queue.name, &wanted));
    }
    if arguments.json {
        let discarded: Vec<_> = discarded.iter().map(dropped).collect();
        let mut shown = object.map_or_else(
            || json!({}),
            |object| {
                serde_json::to_value(list::Line::from(object)).expect("names and texts always serialize")
            },
        );
        shown["discarded"] = discarded.into();
        output::line(shown)?;
        return Ok(());
    }
    let mut out = output::stdout();
    if let Some(object) = object {
        let failure = &object.failure;
        writeln!(out, "{}", styled(TITLE, &object.key))?;
        writeln!(out, "{}", styled(BAD, &failure.error))?;
        let (attempts, since, waiting) = (failure.attempts, object.since, object.waiting);
        writeln!(out, "{attempts} attempts; parked since {since:.0}; {waiting} events wait")?;
    }
    for DiscardedEvents { first, last, events, reason, at, .. } in &discarded {
        writeln!(out, "discarded at {at:.0}: {events} events ({first} to {last}): {reason}")?;
    }
    out.flush()?;
    Ok(())
}

fn dropped(discarded: &DiscardedEvents) -> serde_json::Value {
    let DiscardedEvents { first, last, events, error, reason, at, .. } = discarded;
    json!({"first": first, "last": last, "changes": events, "error": error, "reason": reason, "at": at.to_string()})
}

async fn discard(queue: &QueueConfig, opened: &dyn Queue, arguments: &ParkedDiscard) -> Result<()> {
    discard::check_reason(arguments)?;
    let views = meant(opened, &queue.name, Some(&arguments.key)).await?;
    let Some(view) = views.first() else { return Ok(()) };
    let key = key(&view.object);
    let first = view.sending.first().ok_or_else(|| discard::changed(&queue.name, &key))?.0;
    let what = if arguments.tail { Discard::All(first) } else { Discard::First(first) };
    let outcome = opened.discard(&view.object, what, &arguments.reason).await?;
    let waiting = view.waiting + view.sending.len() as u64;
    discard::tell(&queue.name, &key, what, waiting, outcome)
}

async fn retry_all(
    config: &Config,
    queue: &QueueConfig,
    opened: &Arc<dyn Queue>,
    arguments: &ParkedRetry,
) -> Result<()> {
    let name = &queue.name;
    let chosen = meant(&**opened, name, arguments.key.as_deref()).await?;
    if chosen.is_empty() {
        output::line(format_args!("feed {name}: nothing is parked"))?;
        return Ok(());
    }
    for view in &chosen {
        opened.retry(&view.object).await?;
    }
    if arguments.no_wait {
        let (count, are) = (chosen.len() as u64, if chosen.len() == 1 { "is" } else { "are" });
        let objects = output::counted(count, "parked object");
        output::line(format_args!("feed {name}: {objects} {are} to be tried again"))?;
        return Ok(());
    }
    let working = async {
        // Nobody would ever try them.
        if opened.workers().await?.is_empty() {
            tracing::info!(feed = %name, "no worker runs it: working here until nothing is left");
            work(config, queue).await?;
        }
        until_tried(&**opened, name, &chosen).await
    };
    let failed = tokio::select! {
        failed = working => failed?,
        () = unix_signals::shutdown()? => {
            return Err(Error::failed(format!("feed {name}: told to stop before all were tried"))
                .help("they are queued: the next worker tries them"));
        }
    };
    retry::report(name, chosen.len(), &failed)
}

/// Works on the queue in this process until nothing is left.
async fn work(config: &Config, queue: &QueueConfig) -> Result<()> {
    let mut open = handlers::Open::default();
    let host = setup::host_name(None)?;
    let workers = queues::Workers::prepare(&[queue], config, &host, &Arc::default(), &mut open).await?;
    let worked = workers.drain().await;
    open.close().await;
    worked
}

/// Waits until each is sent to its end or parked again, and returns those that are parked again.
async fn until_tried(queue: &dyn Queue, feed: &FeedName, chosen: &[ObjectView]) -> Result<Vec<ParkedObject>> {
    let mut open: Vec<&ObjectView> = chosen.iter().collect();
    let mut failed = Vec::new();
    loop {
        let mut still = Vec::new();
        for was in open {
            let Some(view) = queue.inspect(&was.object).await? else { continue };
            match parked_object(feed, &view) {
                Some(parked) => failed.push(parked),
                // What was pushed since is none of this.
                None if view.last >= was.sending.last().copied() => {}
                None => still.push(was),
            }
        }
        if still.is_empty() {
            return Ok(failed);
        }
        open = still;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
