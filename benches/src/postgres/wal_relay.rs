//! How fast the relay takes changes from the server's log into the journal, against PostgreSQL's own `pg_recvlogical`, which reads the
//! same log to nowhere.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use seriatim::clock;
use tokio::process::Command;

use super::place::{self, Place};
use super::relaying::{Relaying, passed, words};
use crate::rounds::Rounds;
use crate::{Backlog, Row};

const ROUNDS: usize = 3;

const SLOT: &str = "seriatim_bench_bare";

/// How much of what `pg_recvlogical` reads the relay should append in the same time.
const AIM: f64 = 0.5;

/// Measures it; `None` where there is no `pg_recvlogical`.
pub(super) async fn wal_relay(
    place: &Place,
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Row>> {
    let Some(bare) = pg_recvlogical() else {
        progress("left out wal-relay-postgres: there is no pg_recvlogical (Debian: postgresql-client)");
        return Ok(None);
    };
    Relaying::begin(place).await?.end(place).await?;
    let session = place.session().await?;
    let (make, drop_it) =
        (include_str!("../../sql/postgres/slot.sql"), include_str!("../../sql/postgres/slot_drop.sql"));
    let (changes, mut rounds) = (backlog.tenth().changes(), Rounds::default());
    for round in 1..=ROUNDS {
        progress(&format!("the log of {changes} changes, round {round} of {ROUNDS}"));
        session.execute("truncate orders", &[]).await?;
        Relaying::begin(place).await?.end(place).await?;
        session.execute(make, &[&SLOT]).await?;
        place::write(&session, changes).await?;
        let end = words(place).await?;
        let began = clock::now();
        read_bare(&bare, place, &end).await?;
        let limit = changes as f64 / began.elapsed().as_secs_f64();
        session.execute(drop_it, &[&SLOT]).await?;
        let relaying = Relaying::start(place).await?;
        let began = clock::now();
        passed(place, &end).await?;
        rounds.add(changes as f64 / began.elapsed().as_secs_f64(), limit);
        relaying.end(place).await?;
    }
    let (value, limit) = rounds.middle();
    Ok(Some(Row::new("wal-relay-postgres", value.round(), "changes/s", limit.round(), AIM)))
}

/// The program, of the server's version or of any.
fn pg_recvlogical() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let debian = ["/usr/lib/postgresql/15/bin".into()];
    folders
        .into_iter()
        .chain(debian)
        .map(|folder: PathBuf| folder.join("pg_recvlogical"))
        .find(|path| path.exists())
}

/// Reads the log up to this place.
async fn read_bare(program: &PathBuf, place: &Place, end: &str) -> anyhow::Result<()> {
    let session = place.session().await?;
    let publication: String =
        session.query_one(include_str!("../../sql/postgres/publication.sql"), &[]).await?.get(0);
    let mut command = Command::new(program);
    command.args(["--start", "--slot", SLOT, "--file", "/dev/null", "--no-loop", "--fsync-interval=0"]);
    command.args(["--dbname", place.url(), "--endpos", end, "-o", "proto_version=1", "-o", "messages=true"]);
    command.arg("-o").arg(format!("publication_names={publication}"));
    let done = command.kill_on_drop(true).output().await.context("starting pg_recvlogical")?;
    ensure!(done.status.success(), "pg_recvlogical: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
