//! What the program can do with changes by itself.

mod stdout;

use std::path::Path;
use std::sync::Arc;

use seriatim::handler::Handling;
use seriatim_handlers::{Command, CommandSettings, Webhook, WebhookSettings};
use tokio::sync::Notify;

use crate::config::{Config, FeedConfig, HandlerKind, Secret, WebhookSecret};
use crate::databases::{self, OpenStore, Sql};
use crate::error::{Error, Result};
use crate::setup::Guarantee;

/// At most so many lines of one child are unanswered at the same time, or one batch if that is more.
const AHEAD: usize = 256;

/// Whether the handler is set up rightly. Whether its target is there does not matter yet: it may come.
pub async fn check(feed: &FeedConfig) -> Result<()> {
    match &feed.handler.kind {
        HandlerKind::Stdout | HandlerKind::Command { .. } => Ok(()),
        HandlerKind::Webhook { .. } => webhook(feed).map(drop),
        HandlerKind::Sql { sql, delete } => databases::check_sql(feed, of_text(sql, delete)).await,
    }
}

/// Whether the handler's target is there.
pub async fn reach(feed: &FeedConfig, config: &Config) -> Result<()> {
    match &feed.handler.kind {
        HandlerKind::Stdout | HandlerKind::Sql { .. } => Ok(()),
        HandlerKind::Command { command, .. } => {
            let program = command.first().map_or("", String::as_str);
            let found = seriatim_handlers::command::find(program, folder(config));
            let help = format!("mend feed.{}.handler.command, or install the program", feed.name);
            found.map(drop).map_err(|problem| Error::failed(problem.to_string()).help(help))
        }
        HandlerKind::Webhook { .. } => webhook(feed)?.reach().await.map_err(|failure| {
            Error::failed(failure.to_string())
                .help(format!("start what is to listen there, or mend feed.{}.handler.webhook", feed.name))
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
    Ok(match &feed.handler.kind {
        HandlerKind::Stdout => Handling::AtLeastOnce(Arc::new(stdout::Stdout::new(Arc::clone(closed)))),
        HandlerKind::Sql { sql, delete } => {
            databases::sql_handling(feed, of_text(sql, delete), store, Guarantee::of(feed, config)).await?
        }
        HandlerKind::Command { command, processes } => {
            let command = Arc::new(Command::new(CommandSettings {
                feed: feed.name.clone(),
                command: command.clone(),
                folder: folder(config).to_owned(),
                processes: *processes,
                ahead: AHEAD.max(feed.handler.batch),
                timeout: feed.handler.timeout,
            }));
            open.0.push(Arc::clone(&command));
            Handling::AtLeastOnce(command)
        }
        HandlerKind::Webhook { .. } => Handling::AtLeastOnce(Arc::new(webhook(feed)?)),
    })
}

fn webhook(feed: &FeedConfig) -> Result<Webhook> {
    let HandlerKind::Webhook { url, headers, secret } = &feed.handler.kind else {
        return Err(Error::failed("this handler is no webhook"));
    };
    let settings = WebhookSettings {
        url: url.clone(),
        single: feed.handler.batch == 1,
        timeout: feed.handler.timeout,
        headers: headers.iter().map(|(name, Secret(value))| (name.clone(), value.clone())).collect(),
        secret: secret.as_ref().map(|secret| resolve(secret, feed)).transpose()?,
    };
    Webhook::new(settings).map_err(|bad| Error::usage(format!("feed.{}.handler.webhook {bad}", feed.name)))
}

fn resolve(secret: &WebhookSecret, feed: &FeedConfig) -> Result<String> {
    match secret {
        WebhookSecret::Here(Secret(secret)) => Ok(secret.clone()),
        WebhookSecret::Variable(name) => match std::env::var(name) {
            Ok(secret) if !secret.is_empty() => Ok(secret),
            _ => Err(Error::usage(format!(
                "feed.{}.handler.secret_env names the variable {name}, which is not set",
                feed.name
            ))
            .help("set it to the secret that both sides know")),
        },
    }
}

/// The config file's folder: what a command's paths are relative to.
fn folder(config: &Config) -> &Path {
    config.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn of_text<'a>(sql: &'a str, delete: &'a Option<String>) -> Sql<'a> {
    Sql { sql, delete: delete.as_deref() }
}
