//! A processor follows invoices by the moment of their last change: for databases where nobody may create triggers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seriatim::Host;
use seriatim::jiff::Timestamp;
use seriatim::source::window::{Age, Arguments, Processor, Result, Tie, Window, Windows};
use seriatim_sqlite::rusqlite::{Connection, params};
use seriatim_sqlite::{Source, SqliteStore};

#[derive(Clone)]
struct Invoice {
    number: i64,
    amount: i64,
    changed_at: Timestamp,
}

/// The invoices of one region. Each region has a tracker of its own.
struct Invoices {
    file: PathBuf,
    region: &'static str,
}

impl Processor for Invoices {
    type Record = Invoice;
    const EXCESSIVE_COUNT: usize = 2;
    const STALE_AGE: Age = Age::Infinite;

    async fn fetch(&self, window: Window) -> Result<Vec<Invoice>> {
        let after = window.after.map_or(Ok(i64::MIN), |tie| tie.number())?;
        let connection = Connection::open(&self.file)?;
        let mut statement = connection.prepare(
            "select number, amount, changed_at from invoices
             where region = ?1 and changed_at >= ?2 and (changed_at, number) > (?2, ?3) and changed_at < ?4
             order by changed_at, number limit ?5",
        )?;
        let (from, to) = (window.from.as_millisecond(), window.to.as_millisecond());
        let rows = statement
            .query_map(params![self.region, from, after, to, window.limit as i64], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let invoice = |(number, amount, changed_at)| {
            Ok(Invoice { number, amount, changed_at: Timestamp::from_millisecond(changed_at)? })
        };
        rows.map(|row| invoice(row?)).collect()
    }

    async fn process(&self, invoices: Vec<Invoice>) -> Result<()> {
        for Invoice { number, amount, changed_at } in invoices {
            println!("{}: invoice {number} came to {amount} at {changed_at}", self.region);
        }
        Ok(())
    }

    fn changed_at(&self, invoice: &Invoice) -> Timestamp {
        invoice.changed_at
    }

    fn tie(&self, invoice: &Invoice) -> Option<Tie> {
        Some(Tie::from(invoice.number))
    }

    fn arguments(&self) -> Arguments {
        Arguments::new([("region", self.region)])
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("billing.db");
    Connection::open(&file)?.execute_batch(
        "create table invoices (number integer primary key, region text, amount integer, changed_at integer);
         create index invoices_changed_at on invoices (region, changed_at);
         insert into invoices values (1, 'eu', 10, 1000), (2, 'us', 20, 1000), (3, 'eu', 30, 2000), (4, 'eu', 40, 2000);",
    )?;
    let store = SqliteStore::open(folder.path().join("store.db")).await?;
    let mut host = Host::new("example", Arc::new(store));
    for region in ["eu", "us"] {
        let invoices = Invoices { file: file.clone(), region };
        let windows = Windows::new("invoices", invoices, Source::new(&file).clock())?;
        host = host.windows(windows.buffer(Duration::from_millis(50))?.every(Duration::from_millis(10)));
    }
    // A service would call `run_until(shutdown)`, in as many processes as it likes: one of them works, the others wait.
    Ok(host.run_once().await?)
}
