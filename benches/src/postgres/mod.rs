//! Measurements on PostgreSQL: on a server that was named, or on a throw-away one.

mod capture;
mod commit_latency;
mod fleet;
mod growth;
mod journal_drain;
mod latency;
mod place;
mod relaying;
mod sql_effect;
mod wal_relay;

use std::path::PathBuf;

use anyhow::Context as _;
use seriatim_testkit::servers::{Postgres, ServerError};

use crate::{Backlog, Row};
use place::{Noticed, Place};

/// The server to measure on.
enum Server {
    Given(String),
    Own(Postgres),
}

impl Server {
    fn find(given: Option<&str>) -> Result<Self, ServerError> {
        match given {
            Some(url) => Ok(Server::Given(url.to_owned())),
            None => Postgres::start().map(Server::Own),
        }
    }

    /// A new database on it.
    async fn place(&self) -> anyhow::Result<Place> {
        let url = match self {
            Server::Given(url) => url.clone(),
            Server::Own(postgres) => postgres.url(),
        };
        Place::new(&url).await.context("making a database to measure in")
    }
}

/// The program, whose hosts are measured: the one that measures, if it is that.
fn program() -> Option<PathBuf> {
    let here =
        std::env::current_exe().ok().filter(|path| path.file_stem().is_some_and(|name| name == "seriatim"));
    std::env::var_os("SERIATIM_PROGRAM").map(PathBuf::from).or(here)
}

/// Leaves out what needs a log that can be decoded, where the server has none.
async fn leave_out_wal(
    server: &Server,
    names: &mut Vec<&str>,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<()> {
    let by_wal = |name: &&str| name.contains("wal");
    if !names.iter().any(by_wal) {
        return Ok(());
    }
    let place = server.place().await?;
    let level: String = place.session().await?.query_one("show wal_level", &[]).await?.get(0);
    place.remove().await?;
    if level != "logical" {
        let (left_out, others) = names.iter().partition(|name| by_wal(name));
        let left_out: Vec<&str> = left_out;
        progress(&format!(
            "left out {}: wal_level of the server is {level}, and not logical",
            left_out.join(", ")
        ));
        *names = others;
    }
    Ok(())
}

/// Takes those of these measurements that are about PostgreSQL.
pub(crate) async fn measure(
    names: &[&str],
    backlog: Backlog,
    url: Option<&str>,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let ours = |name: &&&str| name.contains("-postgres") || name.starts_with("commit-latency-");
    let mut names: Vec<&str> = names.iter().filter(ours).copied().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let server = match Server::find(url) {
        Ok(server) => server,
        Err(error) => {
            progress(&format!("left out {}: {error}", names.join(", ")));
            return Ok(Vec::new());
        }
    };
    leave_out_wal(&server, &mut names, progress).await?;
    let mut rows = Vec::new();
    if names.contains(&"journal-drain-postgres") {
        let place = server.place().await?;
        rows.push(journal_drain::journal_drain(&place, backlog, progress).await?);
        place.remove().await?;
    }
    if names.contains(&"sql-effect-postgres") {
        let place = server.place().await?;
        rows.push(sql_effect::sql_effect(&place, backlog.tenth(), progress).await?);
        place.remove().await?;
    }
    for size in [1, 1000] {
        let of_size = |name: &&&str| name.starts_with("capture-") && name.ends_with(&format!("-{size}"));
        let chosen: Vec<&str> = names.iter().filter(of_size).copied().collect();
        if !chosen.is_empty() {
            rows.extend(capture::captures(&server, &chosen, size, backlog, progress).await?);
        }
    }
    let commits: Vec<&str> =
        names.iter().filter(|name| name.starts_with("commit-latency-")).copied().collect();
    if !commits.is_empty() {
        rows.extend(commit_latency::commit_latency(&server, &commits, backlog, progress).await?);
    }
    if names.contains(&"wal-relay-postgres") {
        let place = server.place().await?;
        rows.extend(wal_relay::wal_relay(&place, backlog, progress).await?);
        place.remove().await?;
    }
    for noticed in [Noticed::Journal, Noticed::Wal] {
        if names.contains(&noticed.latency()) {
            let place = server.place().await?;
            rows.push(latency::latency(&place, noticed, backlog, progress).await?);
            place.remove().await?;
        }
    }
    for one in fleet::FLEETS.into_iter().filter(|fleet| names.contains(&fleet.name)) {
        let Some(program) = program() else {
            progress(&format!("left out {}: it needs the program; name it in SERIATIM_PROGRAM", one.name));
            continue;
        };
        let place = server.place().await?;
        rows.extend(fleet::fleet(&place, one, &program, progress).await?);
        place.remove().await?;
    }
    if names.contains(&"growth-churn-postgres") {
        let place = server.place().await?;
        rows.push(growth::growth(&place, backlog, progress).await?);
        place.remove().await?;
    }
    Ok(rows)
}
