//! Logs whose index or whole database was made anew: REINDEX CONCURRENTLY, dump and restore.

use std::path::PathBuf;
use std::process::Command;

use seriatim::source::{Feed, Install, Start};
use seriatim_postgres::Source;
use seriatim_testkit::servers::Postgres;

use crate::log_kit::{Follower, LIMIT, ORDERS, Shop, told};
use crate::support::{client, until};

#[tokio::test]
async fn an_index_that_was_made_anew_is_found() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 3) g").await;
    let mut follower = Follower::open(shop.source().log("orders").with_deletes(), Start::Beginning).await;
    follower.drain().await;
    shop.sql("reindex table concurrently orders").await;
    shop.sql("update orders set amount = 1 where id = 1; delete from orders where id = 2").await;
    let mut seen = told(&follower.drain().await);
    seen.sort();
    assert_eq!(seen, [r#"delete {"id":2}"#, r#"upsert {"id":1}"#]);
    let deleted = "select count(*) from seriatim.log_id_orders_keys where deleted";
    follower.consumes_until(&shop, 0, deleted).await;
    shop.sql("reindex index concurrently orders_pkey").await;
    shop.sql("select seriatim.log_repair('orders')").await;
    let by_name = "select count(*) from seriatim.log l join pg_index i on i.indexrelid = l.key_index";
    assert_eq!(shop.number(by_name).await, 1);
}

/// A dump of one database restored into another one of the same server.
fn restored(from: &str) -> Option<String> {
    let folder = std::env::var_os("SERIATIM_POSTGRES");
    let folder = folder.map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from);
    if !folder.join("pg_dump").exists() {
        eprintln!("not tried: there is no pg_dump beside this server");
        return None;
    }
    let to = Postgres::shared().url_of(&Postgres::shared().database().unwrap());
    let dump = Command::new(folder.join("pg_dump")).args(["-d", from]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), dump.stdout).unwrap();
    let psql = Command::new(folder.join("psql"))
        .args(["-qXv", "ON_ERROR_STOP=1", "-d", &to, "-f"])
        .arg(script.path())
        .output();
    let psql = psql.unwrap();
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    Some(to)
}

#[tokio::test]
async fn a_restored_log_lets_writers_go_on_and_is_put_right_by_watch() {
    let shop = Shop::with("create table orders (gone text, n int, number bigint primary key)").await;
    // The key's column gets another number by the restore, and has another name than the log gave it.
    shop.sql("alter table orders drop column gone; insert into orders values (1, 1), (1, 2), (1, 3)").await;
    let log = |source: Source| source.log("orders").partitions(1).with_deletes();
    let mut follower = Follower::open(log(shop.source()), Start::Beginning).await;
    follower.drain().await;
    shop.sql("alter table orders rename number to id; update orders set n = 2 where id = 1").await;
    follower.drain().await;
    until("the functions know the new name", async || {
        follower.consumed().await;
        shop.number("select count(*) from seriatim.log where key_now = '{id}'").await == 1
    })
    .await;
    let before = follower.cursors.clone();
    let Some(url) = restored(shop.place.url()) else { return };
    let writer = client(&url).await;
    writer
        .batch_execute("update orders set n = 3 where id = 2; delete from orders where id = 3")
        .await
        .unwrap();
    writer.batch_execute("truncate orders; insert into orders values (4, 1), (4, 4)").await.unwrap();
    let source = || Source::connect(&url).unwrap();
    let mut again = Follower { capture: log(source()), cursors: before, ..follower };
    let error = again.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("came from a dump"), "{error}");
    again.capture.install(&again.consumer, &Start::Now).await.unwrap();
    let position = again.capture.rewind(&again.consumer, &Start::Beginning).await.unwrap();
    again.cursors[0].after = position;
    again.states.clear();
    again.drain().await;
    assert_eq!(again.states.values().collect::<Vec<_>>(), ["[4,1]", "[4,4]"]);
    writer
        .batch_execute("update orders set n = 5 where id = 1; delete from orders where id = 4")
        .await
        .unwrap();
    again.drain().await;
    assert_eq!(again.states.values().collect::<Vec<_>>(), ["[5,1]"]);
    again.consumed().await;
    again.capture.close(&again.consumer).await.unwrap();
}
