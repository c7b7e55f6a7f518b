//! Totals for each customer, kept in the same transaction as the checkpoint: no change counts twice, whatever crashes.

use std::sync::Arc;

use seriatim::{Change, Failure, Host, Value};
use seriatim_sqlite::rusqlite::{Connection, Transaction};
use seriatim_sqlite::{Source, SqliteStore, in_transaction};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let shop = Connection::open(&path)?;
    shop.execute_batch(
        "create table orders (id integer primary key, customer text not null, amount integer not null);
         create table totals (customer text primary key, amount integer not null);
         insert into orders (customer, amount) values ('ada', 10), ('bob', 5), ('ada', 7);",
    )?;

    let store = Arc::new(SqliteStore::open(&path).await?);
    let totals = in_transaction(&store, keep_totals);
    let orders = Source::new(&path).journal("orders");
    Host::new("example", store).feed_in_transaction(orders, totals).run_once().await?;

    let ada: i64 =
        shop.query_row("select amount from totals where customer = 'ada'", [], |row| row.get(0))?;
    println!("ada has ordered for {ada}");
    anyhow::ensure!(ada == 17);
    Ok(())
}

fn keep_totals(changes: &[Change], transaction: &Transaction<'_>) -> Result<(), Failure> {
    let mut add = transaction.prepare_cached(
        "insert into totals values (?1, ?2) on conflict (customer) do update set amount = amount + excluded.amount",
    )?;
    for change in changes {
        // What the row counted for before goes, what it counts for now comes.
        for (row, sign) in [(&change.before, -1), (&change.after, 1)] {
            let Some(row) = row else { continue };
            let customer = row.get("customer").and_then(Value::as_str);
            let amount = row.get("amount").and_then(Value::as_i64).unwrap_or(0);
            add.execute((customer, sign * amount))?;
        }
    }
    Ok(())
}
