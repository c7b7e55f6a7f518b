//! The same on PostgreSQL.

use std::sync::Arc;

use seriatim::clock;
use seriatim::once::AttemptId;
use seriatim_postgres::{Client, Database, PostgresLedger};
use seriatim_testkit::servers::Postgres;

use super::{REMEMBERED, ROUNDS, Rounds, SIGNALS, protect, rows};
use crate::Row;

const START: &str = include_str!("../../sql/postgres/once_start.sql");
const COMPLETE: &str = include_str!("../../sql/postgres/once_complete.sql");
const FILL: &str = include_str!("../../sql/postgres/once_fill.sql");

/// A ledger in a database of its own, and a connection for bare writes to it, set up as the ledger's own are.
struct Place {
    ledger: Arc<PostgresLedger>,
    client: Client,
}

impl Place {
    /// A database that remembers so many signals.
    async fn new(server: &Postgres, remembered: i64) -> anyhow::Result<Self> {
        let database = Database::connect(&server.url_of(&server.database()?))?;
        let ledger = Arc::new(PostgresLedger::on(database.clone()).await?);
        let client = database.client().await?;
        if remembered > 0 {
            client.execute(FILL, &[&remembered]).await?;
            client.batch_execute("vacuum analyze seriatim.once").await?;
            client.batch_execute("checkpoint").await?;
        }
        Ok(Place { ledger, client })
    }
}

/// Measures it on a throw-away server, and how much slower it is with a million signals in the table. Says so and measures
/// nothing where the server is not installed.
pub(crate) async fn on_postgres(growth: bool, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Row>> {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(missing) => {
            eprintln!("protect-postgres is left out: {missing}");
            return Ok(Vec::new());
        }
    };
    progress("preparing ledgers on PostgreSQL");
    let empty = Place::new(&server, 0).await?;
    let full = match growth {
        true => Some(Place::new(&server, REMEMBERED).await?),
        false => None,
    };
    let (mut limit, mut value, mut when_full) = (Rounds::default(), Rounds::default(), Rounds::default());
    for round in 0..ROUNDS {
        progress(&format!("protecting effects on PostgreSQL, round {} of {ROUNDS}", round + 1));
        limit.add(bare_writes(&empty.client, round).await?);
        value.add(protect(empty.ledger.clone(), round).await?);
        if let Some(full) = &full {
            when_full.add(protect(full.ledger.clone(), round).await?);
        }
    }
    Ok(rows("postgres", limit, value, when_full))
}

async fn bare_writes(client: &Client, round: usize) -> anyhow::Result<f64> {
    let (start, complete) = (client.prepare_cached(START).await?, client.prepare_cached(COMPLETE).await?);
    let began = clock::now();
    for number in 0..SIGNALS {
        let id = format!("bare {round} {number}");
        client.execute(&start, &[&id, &AttemptId::random().as_str()]).await?;
        client.execute(&complete, &[&id]).await?;
    }
    Ok(SIGNALS as f64 / began.elapsed().as_secs_f64())
}
