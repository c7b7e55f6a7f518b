//! A closure gets every change of a table: first the rows that are there, then each insert, update and delete.

use std::sync::Arc;

use seriatim::{Change, Context, Host};
use seriatim_sqlite::rusqlite::Connection;
use seriatim_sqlite::{Source, SqliteStore};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let shop = Connection::open(&path)?;
    shop.execute_batch(
        "create table orders (id integer primary key, item text);
         insert into orders (item) values ('tea'), ('coffee');",
    )?;

    // The first run installs the triggers and shows what exists; later ones show what has changed since.
    handle_what_is_there(&path).await?;
    shop.execute_batch(
        "update orders set item = 'green tea' where id = 1;
         delete from orders where id = 2;",
    )?;
    handle_what_is_there(&path).await
}

async fn handle_what_is_there(path: &std::path::Path) -> anyhow::Result<()> {
    let store = SqliteStore::open(path).await?;
    let orders = Source::new(path).journal("orders");
    let print = |change: Change, _: Context| async move {
        println!("{}", change.to_json());
        anyhow::Ok(())
    };
    // A service would call `run_until(shutdown)`, in as many processes as it likes.
    Ok(Host::new("example", Arc::new(store)).feed(orders, print).run_once().await?)
}
