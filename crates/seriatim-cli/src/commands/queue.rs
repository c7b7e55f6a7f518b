//! `seriatim queue`: pushes events, and looks at queues.

use serde_json::json;
use seriatim::name::ObjectName;
use seriatim::queue::{Body, ObjectView, PushError, Queue};

use crate::args::{Queue as Arguments, QueueAdopt, QueueInspect, QueueInvariants, QueuePush};
use crate::config::Config;
use crate::databases;
use crate::error::{Error, Result};
use crate::output::{self, FAINT, PLAIN, Table, WARN};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Push(arguments) => push(config, arguments).await,
        Arguments::Inspect(arguments) => inspect(config, arguments).await,
        Arguments::Invariants(arguments) => invariants(config, arguments).await,
        Arguments::Adopt(arguments) => adopt(config, arguments).await,
    }
}

async fn push(config: &Config, arguments: &QueuePush) -> Result<()> {
    let queue = config.queue(&arguments.feed)?;
    let object = ObjectName::new(&arguments.object).map_err(|bad| Error::usage(bad.to_string()))?;
    let events = std::iter::once(&arguments.main).chain(&arguments.subs);
    let events = events.map(|event| event_of(event)).collect::<Result<Vec<Body>>>()?;
    databases::queue(queue).await?.push(&object, &events).await.map_err(|error| match error {
        PushError::Store(error) => error.into(),
        PushError::Name(bad) => Error::usage(bad.to_string()),
        full @ PushError::Full { .. } => Error::failed(full.to_string()),
    })?;
    let count = events.len();
    let events = if count == 1 { "1 event".to_owned() } else { format!("{count} events") };
    output::line(format_args!("feed {}: {events} of {object} pushed", queue.name))?;
    Ok(())
}

/// An event that is not JSON would only be found out by its consumer.
fn event_of(text: &str) -> Result<Body> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Ok(Body::from(text)),
        Err(error) => Err(Error::usage(format!("the event {text:?} is not JSON: {error}"))
            .help(r#"write it as JSON, such as '{"title":"Emma"}' or '"text"'"#)),
    }
}

async fn inspect(config: &Config, arguments: &QueueInspect) -> Result<()> {
    let queue = databases::existing_queue(config.queue(&arguments.feed)?).await?;
    let views = match (&queue, &arguments.object) {
        (None, _) => Vec::new(),
        (Some(queue), None) => all(&**queue).await?,
        (Some(queue), Some(object)) => queue.inspect(&ObjectName::found(object)).await?.into_iter().collect(),
    };
    if arguments.json {
        let shown: Vec<_> = views.iter().map(shown).collect();
        output::line(serde_json::Value::from(shown))?;
        return Ok(());
    }
    write(&views)
}

async fn all(queue: &dyn Queue) -> Result<Vec<ObjectView>> {
    let mut views = Vec::new();
    for object in queue.objects().await? {
        views.extend(queue.inspect(&object).await?);
    }
    Ok(views)
}

fn shown(view: &ObjectView) -> serde_json::Value {
    json!({
        "object": view.object,
        "waiting": view.waiting,
        "sending": view.sending,
        "last": view.last,
        "worker": view.holder.as_ref().map(|hold| &hold.session.worker),
        "epoch": view.holder.as_ref().map(|hold| hold.epoch),
        "queued": view.queued,
        "parked": view.parked.as_ref().map(|parked| json!({
            "error": parked.failure.error,
            "attempts": parked.failure.attempts,
            "since": parked.since.to_string(),
        })),
    })
}

fn write(views: &[ObjectView]) -> Result<()> {
    if views.is_empty() {
        output::line("nothing is waiting")?;
        return Ok(());
    }
    let mut table = Table::titled(["object", "waiting", "sending", "last id", "worker", "state"]);
    for view in views {
        let (style, state) = match (&view.parked, view.holder.is_some(), view.queued) {
            (Some(parked), ..) => (WARN, format!("parked: {}", parked.failure.error)),
            (None, true, _) => (PLAIN, "held".to_owned()),
            (None, false, true) => (PLAIN, "queued".to_owned()),
            (None, false, false) => (FAINT, "at rest".to_owned()),
        };
        table.row([
            (PLAIN, view.object.to_string()),
            (PLAIN, view.waiting.to_string()),
            (PLAIN, view.sending.len().to_string()),
            (FAINT, view.last.map(|id| id.to_string()).unwrap_or_default()),
            (PLAIN, view.holder.as_ref().map(|hold| hold.session.worker.to_string()).unwrap_or_default()),
            (style, state),
        ]);
    }
    table.write(&mut output::stdout())?;
    Ok(())
}

async fn adopt(config: &Config, arguments: &QueueAdopt) -> Result<()> {
    let queue = config.queue(&arguments.feed)?;
    let adopted =
        queue.database.adopt(queue).await.map_err(|error| error.about(&format!("feed {}", queue.name)))?;
    if adopted.is_empty() {
        output::line("no worker of another program has left anything")?;
    }
    Ok(adopted.into_iter().try_for_each(output::line)?)
}

async fn invariants(config: &Config, arguments: &QueueInvariants) -> Result<()> {
    let broken = match databases::existing_queue(config.queue(&arguments.feed)?).await? {
        Some(queue) => queue.invariants().await?,
        None => Vec::new(),
    };
    match arguments.json {
        true => output::line(serde_json::to_string(&broken).expect("names and texts always serialize"))?,
        false if broken.is_empty() => output::line("all invariants hold")?,
        false => broken.iter().try_for_each(|broken| output::line(broken.to_string()))?,
    }
    match broken.len() {
        0 => Ok(()),
        1 => Err(Error::failed("1 invariant does not hold")),
        many => Err(Error::failed(format!("{many} invariants do not hold"))),
    }
}
