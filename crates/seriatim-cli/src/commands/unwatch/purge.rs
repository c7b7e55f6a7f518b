//! `seriatim unwatch --purge`: takes out everything that Seriatim has made in the sources and the store of the config.

use seriatim::lease::Liveness;

use super::{SILENT, queued};
use crate::config::Config;
use crate::databases::{self, Place};
use crate::error::{Error, Result};
use crate::output;

/// Runs the command.
pub async fn execute(config: &Config, force: bool) -> Result<()> {
    if !force {
        refuse_while_hosts_run(config).await?;
    }
    for queue in config.queues.values() {
        queued::take_out(&*queue.database, &queue.name, force).await?;
    }
    for database in config.databases() {
        for watching in watchings(database).await? {
            if let Some(source) = database.clone().source() {
                source.end_watching(&watching).await?;
            }
        }
    }
    for database in config.databases() {
        let is_source = config.sources.values().any(|source| databases::same(&**source, &**database));
        let place = if is_source { Place::Source } else { Place::Store };
        match database.purge(place, force).await? {
            Some(what) => output::line(format_args!("{database}: {what}"))?,
            None => output::line(format_args!("{database}: nothing of Seriatim was in it"))?,
        }
    }
    Ok(())
}

async fn watchings(database: &databases::Database) -> Result<Vec<seriatim::source::Watching>> {
    match database.clone().source() {
        Some(source) => source.watchings().await,
        None => Ok(Vec::new()),
    }
}

/// Hosts of this store and of others that are in the same databases, and feeds of other stores that were heard of a moment ago.
async fn refuse_while_hosts_run(config: &Config) -> Result<()> {
    let (mut running, mut stores) = (Vec::new(), Vec::new());
    for database in config.databases() {
        let Some(store) = databases::existing_store(database).await? else { continue };
        stores.push(store.identity().await?);
        let hosts = store.pulse().await?.hosts;
        let living = hosts.into_iter().filter(|host| host.liveness != Liveness::Dead);
        running.extend(living.map(|host| format!("host {}", host.name)));
    }
    for queue in config.queues.values() {
        let workers = match databases::existing_queue(queue).await? {
            Some(queue) => queue.workers().await?,
            None => Vec::new(),
        };
        running.extend(
            workers.into_iter().map(|worker| format!("host {} at queue {}", worker.name, queue.name)),
        );
    }
    let now = seriatim::clock::wall();
    for database in config.databases() {
        for watching in watchings(database).await? {
            let consumer = &watching.consumer;
            if !stores.contains(&consumer.store) && now.duration_since(watching.seen_at) < SILENT {
                running.push(format!("feed {} of the store {}", consumer.feed, consumer.store));
            }
        }
    }
    match running.is_empty() {
        true => Ok(()),
        false => Err(Error::failed(format!("nothing is taken out: still running: {}", running.join(", ")))
            .help("stop them first, or use --force")),
    }
}
