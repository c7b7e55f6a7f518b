//! Tables of all kinds by the server's log: existing rows, columns that come and go, partitions, large transactions; and what is refused.

use std::collections::BTreeMap;

use seriatim::change::{Change, Op};
use seriatim::source::{Feed as _, Install as _, Start};
use seriatim::{FeedName, Value};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, consumer, run};
use crate::support::until;
use crate::wal_kit::{all, attention, follow, told};

/// What a table looks like to whoever applies the changes.
fn applied(changes: &[Change]) -> BTreeMap<i64, i64> {
    let mut rows = BTreeMap::new();
    for change in changes {
        let number =
            |row: &Option<seriatim::Row>, column: &str| match row.as_ref().and_then(|row| row.get(column)) {
                Some(Value::Integer(number)) => *number,
                other => panic!("{other:?}"),
            };
        match change.op {
            Op::Truncate => rows.clear(),
            Op::Delete => drop(rows.remove(&number(&change.before, "id"))),
            _ => drop(rows.insert(number(&change.after, "id"), number(&change.after, "amount"))),
        }
    }
    rows
}

async fn table(shop: &Shop) -> BTreeMap<i64, i64> {
    let rows = shop.writer.query("select id, amount::bigint from orders", &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn existing_rows_come_first_beside_live_changes() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select n, n from generate_series(1, 5000) n").await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Beginning).await;
    let mut changes = Vec::new();
    for round in 0..400 {
        shop.sql(&format!("update orders set amount = -{round} where id % 97 = {round} % 97; delete from orders where id = {round} * 11")).await;
        shop.sql(&format!("insert into orders values (10000 + {round}, 0)")).await;
        let (read, caught_up) = follower.read(LIMIT).await;
        changes.extend(read);
        if caught_up && round > 20 {
            break;
        }
    }
    changes.extend(all(&mut follower).await);
    assert_eq!(applied(&changes), table(&shop).await);
    let upserts = changes.iter().filter(|change| change.op == Op::Upsert);
    let mut ids: Vec<String> = upserts.map(|change| change.key.as_ref().unwrap().to_string()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each existing row is told once");
}

#[tokio::test]
async fn with_a_full_identity_existing_rows_come_as_they_were_when_the_feed_began() {
    let shop = Shop::with(&format!("{ORDERS}; alter table orders replica identity full")).await;
    shop.sql("insert into orders select n, n from generate_series(1, 3000) n").await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Beginning).await;
    let mut changes = Vec::new();
    for round in 0..60 {
        shop.sql(&format!("update orders set amount = amount + 1 where id % 50 = {round} % 50; delete from orders where id = {round} * 7 + 1")).await;
        changes.extend(follower.read(LIMIT).await.0);
    }
    changes.extend(all(&mut follower).await);
    assert_eq!(applied(&changes), table(&shop).await);
    // Sums that are kept by differences come out right.
    let value = |row: &Option<seriatim::Row>| match row.as_ref().and_then(|row| row.get("amount")) {
        Some(Value::Integer(number)) => *number,
        _ => 0,
    };
    let sum: i64 = changes.iter().map(|change| value(&change.after) - value(&change.before)).sum();
    assert_eq!(sum, shop.number("select coalesce(sum(amount), 0)::bigint from orders").await);
    let upserts = changes.iter().filter(|change| change.op == Op::Upsert);
    assert!(upserts.clone().all(
        |change| change.after.as_ref().unwrap().get("id") == change.after.as_ref().unwrap().get("amount")
    ));
    assert_eq!(upserts.count(), 3000);
}

#[tokio::test]
async fn a_column_added_in_the_middle_of_a_transaction_is_decoded_right() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql("begin; insert into orders values (1, 10); alter table orders add column note bytea default '\\x01'; \
              insert into orders values (2, 20, '\\x02'); alter table orders drop column amount; insert into orders values (3, '\\x03'); commit")
        .await;
    shop.sql("alter table orders alter column note type text using encode(note, 'hex'); insert into orders values (4, '\\x04')").await;
    assert_eq!(
        told(&all(&mut follower).await),
        [
            r#"insert {"id":1} - {"id":1,"amount":10}"#,
            r#"insert {"id":2} - {"id":2,"amount":20,"note":"Ag=="}"#,
            r#"insert {"id":3} - {"id":3,"note":"Aw=="}"#,
            r#"insert {"id":4} - {"id":4,"note":"\\x04"}"#
        ]
    );
}

#[tokio::test]
async fn a_key_column_may_be_renamed_behind_the_relay() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql("insert into orders values (1, 10); alter table orders rename column id to number; insert into orders values (2, 20)").await;
    let changes = all(&mut follower).await;
    let keys: Vec<String> = changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
    assert_eq!(keys, [r#"{"number":1}"#, r#"{"number":2}"#]);
}

#[tokio::test]
async fn a_large_transaction_comes_whole_and_in_order() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql("begin; insert into orders select n, 0 from generate_series(1, 30000) n; update orders set amount = 1; commit").await;
    shop.sql("insert into orders values (0, 7)").await;
    let changes = all(&mut follower).await;
    assert_eq!(changes.len(), 60_001);
    assert!(changes.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(changes[..30_000].iter().all(|change| change.op == Op::Insert));
    assert_eq!(changes[60_000].key.as_ref().unwrap().to_string(), r#"{"id":0}"#);
}

async fn refused(shop: &Shop, capture: seriatim_postgres::Capture) -> String {
    let checked = capture.check().await.unwrap_err().to_string();
    let opened = capture.open(&consumer("x"), &Start::Now).await.unwrap_err().to_string();
    assert_eq!(checked, opened);
    let left = "select (select count(*) from pg_replication_slots where database = current_database()) + (select count(*) from pg_publication)";
    assert_eq!(shop.number(left).await, 0, "nothing is made");
    checked
}

#[tokio::test]
async fn tables_without_a_usable_replica_identity_are_refused() {
    let shop = Shop::with(
        "create table bare (id int, k int); create table other (id int primary key, k int not null); \
         create table none (id int primary key); alter table none replica identity nothing; \
         create table made (id int primary key, double int generated always as (id * 2) stored); \
         create table parts (id int primary key) partition by range (id)",
    )
    .await;
    let source = shop.source();
    let key = |name: &str| vec![name.to_owned()];
    for (capture, expected) in [
        (source.wal("bare").key(key("id")), "no replica identity"),
        (source.wal("other").key(key("k")), "no \"k\" in its replica identity"),
        (source.wal("none"), "no replica identity"),
        (source.wal("parts"), "is partitioned"),
        (source.wal("made"), "generated column \"double\""),
        (source.wal("other").filter("k > 1"), "`where` needs rows as they were"),
    ] {
        let said = refused(&shop, capture).await;
        assert!(said.contains(expected), "{said}");
    }
    run(&shop.writer, "alter table other replica identity full").await;
    let opened =
        Follower::open(source.wal("other").key(key("k")).filter("id > 1").partitions(1), Start::Now).await;
    drop(opened);
}

#[tokio::test]
async fn a_row_without_the_row_as_it_was_stops_a_feed_that_is_to_have_it() {
    let shop = Shop::with(&format!("{ORDERS}; alter table orders replica identity full")).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    all(&mut follower).await;
    // For so short that no look finds it.
    shop.sql("begin; alter table orders replica identity default; update orders set amount = 2; alter table orders replica identity full; commit").await;
    let said = attention(&mut follower).await;
    assert!(said.contains("was full and is not any more"), "{said}");
}

#[tokio::test]
async fn a_publication_that_was_changed_for_a_while_stops_the_feed() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    all(&mut follower).await;
    let publication: String =
        shop.writer.query_one("select pubname::text from pg_publication", &[]).await.unwrap().get(0);
    shop.sql(&format!(
        "alter publication {publication} drop table orders; alter publication {publication} add table orders"
    ))
    .await;
    let said = attention(&mut follower).await;
    assert!(said.contains("taken out of the publication"), "{said}");
    assert!(shop.source().wal("orders").check().await.is_err());
    // After `watch`, positions of before are refused, and new ones are good.
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    assert!(follower.try_read(LIMIT).await.unwrap_err().to_string().contains("no longer retained"));
}

#[tokio::test]
async fn making_the_slot_behind_an_open_transaction_is_bounded_and_leaves_nothing() {
    let shop = Shop::with(&format!("{ORDERS}; create table other (n int)")).await;
    let open = shop.session().await;
    run(&open, "begin; insert into other values (1)").await;
    let capture = shop.source().wal("orders").partitions(1).named(FeedName::new("x").unwrap());
    let waiting =
        tokio::spawn(async move { capture.open(&consumer("x"), &Start::Now).await.map(|_| capture) });
    shop.place.waits_for_a_lock().await;
    run(&open, "commit").await;
    waiting.await.unwrap().unwrap();
    until("there is one slot", async || {
        shop.number("select count(*) from pg_replication_slots where database = current_database()").await
            == 1
    })
    .await;
}
