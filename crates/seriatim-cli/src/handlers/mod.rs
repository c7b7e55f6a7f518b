//! What the program can do with changes by itself.

mod events;
mod once;
mod stdout;

use std::path::Path;
use std::sync::Arc;

use seriatim::FeedName;
use seriatim::handler::{Handler, Handling};
use seriatim_handlers::{Command, CommandSettings, Webhook, WebhookSettings};
use tokio::sync::Notify;

use crate::children;
use crate::config::{Config, FeedConfig, HandlerConfig, HandlerKind, QueueConfig, Secret, WebhookSecret};
use crate::databases::{self, OpenStore, Sql};
use crate::error::{Error, Result};
use crate::setup::Guarantee;
pub use events::HandledEvents;
pub use once::{WITH_A_LEDGER, processor};

/// At most so many lines of one child are unanswered at the same time, or one batch if that is more.
const AHEAD: usize = 256;

/// Whether the handler is set up rightly. Whether its target is there does not matter yet: it may come.
pub async fn check(feed: &FeedConfig) -> Result<()> {
    match &feed.handler.kind {
        HandlerKind::Stdout | HandlerKind::Command { .. } => Ok(()),
        HandlerKind::Webhook { .. } => webhook(&feed.name, &feed.handler).map(drop),
        HandlerKind::Sql { sql, delete } => databases::check_sql(feed, of_text(sql, delete)).await,
    }
}

/// Whether the handler's target is there.
pub async fn reach(feed: &FeedName, handler: &HandlerConfig, config: &Config) -> Result<()> {
    match &handler.kind {
        HandlerKind::Stdout | HandlerKind::Sql { .. } => Ok(()),
        HandlerKind::Command { command, .. } => {
            let program = command.first().map_or("", String::as_str);
            let found = seriatim_handlers::command::find(program, folder(config));
            let help = format!("mend feed.{feed}.handler.command, or install the program");
            found.map(drop).map_err(|problem| Error::failed(problem.to_string()).help(help))
        }
        HandlerKind::Webhook { .. } => webhook(feed, handler)?.reach().await.map_err(|failure| {
            Error::failed(failure.to_string())
                .help(format!("start what is to listen there, or mend feed.{feed}.handler.webhook"))
        }),
    }
}

/// Handlers that have something to end when the program does.
#[derive(Default)]
pub struct Open(Vec<Arc<Command>>);

impl Open {
    /// Ends the children of commands.
    pub async fn close(self) {
        for command in self.0 {
            command.close().await;
        }
    }
}

/// The handling that a feed's configuration asks for. `closed` is told when the standard output is closed.
pub async fn of(
    feed: &FeedConfig,
    config: &Config,
    store: &OpenStore,
    closed: &Arc<Notify>,
    open: &mut Open,
) -> Result<Handling> {
    let once = feed.once.as_ref();
    Ok(match &feed.handler.kind {
        HandlerKind::Stdout => Handling::AtLeastOnce(Arc::new(stdout::Stdout::new(Arc::clone(closed)))),
        HandlerKind::Sql { sql, delete } => {
            databases::sql_handling(feed, of_text(sql, delete), store, Guarantee::of(feed, config)).await?
        }
        HandlerKind::Command { .. } => {
            let command = command(&feed.name, &feed.handler, config, open)?;
            Handling::AtLeastOnce(once::remembered(command, &feed.name, once, config).await?)
        }
        HandlerKind::Webhook { .. } => {
            let webhook = Arc::new(webhook(&feed.name, &feed.handler)?);
            Handling::AtLeastOnce(once::remembered(webhook, &feed.name, once, config).await?)
        }
    })
}

fn command(
    feed: &FeedName,
    handler: &HandlerConfig,
    config: &Config,
    open: &mut Open,
) -> Result<Arc<Command>> {
    let HandlerKind::Command { command, processes, environment } = &handler.kind else {
        return Err(Error::failed("this handler is no command"));
    };
    let command = Arc::new(Command::new(CommandSettings {
        feed: feed.clone(),
        command: command.clone(),
        folder: folder(config).to_owned(),
        processes: *processes,
        ahead: AHEAD.max(handler.batch),
        timeout: handler.timeout,
        withheld: children::withheld(config, environment),
    }));
    open.0.push(Arc::clone(&command));
    Ok(command)
}

fn webhook(feed: &FeedName, handler: &HandlerConfig) -> Result<Webhook> {
    let HandlerKind::Webhook { url, headers, secret } = &handler.kind else {
        return Err(Error::failed("this handler is no webhook"));
    };
    let settings = WebhookSettings {
        url: url.clone(),
        single: handler.batch == 1,
        timeout: handler.timeout,
        headers: headers.iter().map(|(name, Secret(value))| (name.clone(), value.clone())).collect(),
        secret: secret.as_ref().map(|secret| resolve(secret, feed)).transpose()?,
    };
    Webhook::new(settings).map_err(|bad| Error::usage(format!("feed.{feed}.handler.webhook {bad}")))
}

fn resolve(secret: &WebhookSecret, feed: &FeedName) -> Result<String> {
    match secret {
        WebhookSecret::Here(Secret(secret)) => Ok(secret.clone()),
        WebhookSecret::Variable(name) => match std::env::var(name) {
            Ok(secret) if !secret.is_empty() => Ok(secret),
            _ => Err(Error::usage(format!(
                "feed.{feed}.handler.secret_env names the variable {name}, which is not set"
            ))
            .help("set it to the secret that both sides know")),
        },
    }
}

/// The config file's folder: what a command's paths are relative to.
fn folder(config: &Config) -> &Path {
    config.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a queue's events are handed to.
pub async fn of_queue(
    queue: &QueueConfig,
    config: &Config,
    closed: &Arc<Notify>,
    open: &mut Open,
) -> Result<HandledEvents> {
    let handler: Arc<dyn Handler> = match &queue.handler.kind {
        HandlerKind::Stdout => Arc::new(stdout::Stdout::new(Arc::clone(closed))),
        HandlerKind::Command { .. } => command(&queue.name, &queue.handler, config, open)?,
        HandlerKind::Webhook { .. } => Arc::new(webhook(&queue.name, &queue.handler)?),
        HandlerKind::Sql { .. } => {
            return Err(Error::usage(format!("feed {}: sql cannot handle events of a queue", queue.name)));
        }
    };
    let handler = once::remembered(handler, &queue.name, queue.once.as_ref(), config).await?;
    Ok(HandledEvents::new(queue, handler))
}

fn of_text<'a>(sql: &'a str, delete: &'a Option<String>) -> Sql<'a> {
    Sql { sql, delete: delete.as_deref() }
}
