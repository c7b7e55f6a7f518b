//! The server's own log, relayed: what happened comes as it happened.

use seriatim::source::{Feed as _, Install as _, Start};
use seriatim_postgres::tokio_postgres::Client;

use crate::journal_kit::{Follower, ORDERS, Shop, consumer, run};
use crate::support::until;
use crate::wal_kit::{all, attention, follow, is_read, slot, told};

fn feed(name: &str) -> seriatim::FeedName {
    seriatim::FeedName::new(name).unwrap()
}

const FULL: &str = "create table orders (id bigint primary key, amount int not null); alter table orders replica identity full";

#[tokio::test]
async fn inserts_updates_and_deletes_come_from_the_log() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    shop.sql("insert into orders values (1, 10), (2, 20)").await;
    shop.sql(
        "begin; update orders set amount = 11 where id = 1; update orders set id = 3 where id = 2; commit",
    )
    .await;
    shop.sql("delete from orders where id = 1").await;
    let changes = all(&mut follower).await;
    let of = |id: i64| {
        let is = |change: &&seriatim::Change| {
            change.key.as_ref().is_some_and(|key| key.row().get("id") == Some(&seriatim::Value::Integer(id)))
        };
        told(&changes.iter().filter(is).cloned().collect::<Vec<_>>())
    };
    assert_eq!(
        of(1),
        [
            r#"insert {"id":1} - {"id":1,"amount":10}"#,
            r#"update {"id":1} - {"id":1,"amount":11}"#,
            r#"delete {"id":1} {"id":1} -"#
        ]
    );
    assert_eq!(of(2), [r#"insert {"id":2} - {"id":2,"amount":20}"#, r#"delete {"id":2} {"id":2} -"#]);
    assert_eq!(of(3), [r#"insert {"id":3} - {"id":3,"amount":20}"#]);
    assert!(changes.iter().all(|change| change.at.as_second() > 1_700_000_000), "the moment of the commit");
}

#[tokio::test]
async fn with_a_full_identity_rows_come_as_they_were() {
    let shop = Shop::with(FULL).await;
    let mut follower = follow(&shop, Start::Now).await;
    shop.sql("insert into orders values (1, 10)").await;
    shop.sql("update orders set amount = 11; update orders set id = 2; delete from orders").await;
    assert_eq!(
        {
            let mut changes = all(&mut follower).await;
            changes.sort_by_key(|change| change.id);
            told(&changes)
        },
        [
            r#"insert {"id":1} - {"id":1,"amount":10}"#,
            r#"update {"id":1} {"id":1,"amount":10} {"id":1,"amount":11}"#,
            r#"delete {"id":1} {"id":1,"amount":11} -"#,
            r#"insert {"id":2} - {"id":2,"amount":11}"#,
            r#"delete {"id":2} {"id":2,"amount":11} -"#
        ]
    );
}

#[tokio::test]
async fn truncate_is_delivered() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql("begin; insert into orders values (1, 10); truncate orders; insert into orders values (1, 11); commit").await;
    assert_eq!(
        told(&all(&mut follower).await),
        [
            r#"insert {"id":1} - {"id":1,"amount":10}"#,
            "truncate - - -",
            r#"insert {"id":1} - {"id":1,"amount":11}"#
        ]
    );
}

/// A text that is too large for its row, and cannot be compressed.
async fn large(session: &Client) -> String {
    let sql = "select string_agg(md5(n::text), '') from generate_series(1, 200) n";
    session.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn unchanged_toast_is_taken_from_the_old_row_or_said_to_be_unknown() {
    let shop = Shop::with("create table orders (id bigint primary key, amount int, body text)").await;
    let body = large(&shop.writer).await;
    let mut follower = Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await;
    shop.sql(&format!("insert into orders values (1, 10, '{body}'); update orders set amount = 11")).await;
    let changes = all(&mut follower).await;
    let after = changes[1].after.as_ref().unwrap();
    assert_eq!(after.get("body"), None, "never null");
    assert_eq!(after.columns().unknown().collect::<Vec<_>>(), ["body"]);
    assert!(
        changes[1].to_json().contains(r#""after":{"id":1,"amount":11},"unknown":["body"],"id":"#),
        "{}",
        changes[1].to_json()
    );
    assert!(!changes[0].to_json().contains("unknown"), "{}", changes[0].to_json());
    shop.sql("alter table orders replica identity full").await;
    shop.sql("update orders set amount = 12").await;
    let changes = all(&mut follower).await;
    let is = seriatim::Value::Text(body.as_str().into());
    assert_eq!(changes[0].after.as_ref().unwrap().get("body"), Some(&is));
    assert_eq!(changes[0].before.as_ref().unwrap().get("body"), Some(&is));
}

#[tokio::test]
async fn several_rows_with_one_lsn_survive_a_restart() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    shop.sql("insert into orders select n, 0 from generate_series(1, 50) n").await;
    assert_eq!(all(&mut follower).await.len(), 50);
    for round in 1..=3 {
        // The relay begins anew from what the server was told, and some of it comes again.
        shop.sql("select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database() and active").await;
        shop.sql(&format!("update orders set amount = {round}")).await;
        let changes = all(&mut follower).await;
        assert_eq!(changes.len(), 50, "each once");
    }
}

#[tokio::test]
async fn two_sources_share_one_slot_and_everything_comes_once() {
    let shop = Shop::with(ORDERS).await;
    let mut first = follow(&shop, Start::Now).await;
    let mut second =
        Follower::open(shop.source().wal("orders").partitions(2).named(feed("other")), Start::Now).await;
    shop.sql("insert into orders select n, 0 from generate_series(1, 100) n").await;
    let (one, other) = tokio::join!(all(&mut first), all(&mut second));
    assert_eq!((one.len(), other.len()), (100, 100));
    assert_eq!(
        shop.number("select count(*) from pg_replication_slots where database = current_database()").await,
        1
    );
    drop(first);
    shop.sql("insert into orders select n, 0 from generate_series(101, 200) n").await;
    assert_eq!(all(&mut second).await.len(), 100, "the other one relays");
}

#[tokio::test]
async fn a_slow_handler_does_not_hold_the_servers_wal() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    assert!(all(&mut follower).await.is_empty());
    let before: i64 = shop.number("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").await;
    shop.sql("insert into orders select n, 0 from generate_series(1, 2000) n").await;
    // Nobody reads; the relay goes on.
    until("the slot has passed what was written", async || {
        let confirmed = "select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint from pg_replication_slots where database = current_database()";
        shop.number(confirmed).await > before + 50_000
    })
    .await;
    assert_eq!(all(&mut follower).await.len(), 2000);
}

#[tokio::test]
async fn the_slot_advances_while_only_other_tables_change() {
    let shop = Shop::with(&format!("{ORDERS}; create table noise (n int, t text)")).await;
    let mut follower = follow(&shop, Start::Now).await;
    assert!(all(&mut follower).await.is_empty());
    shop.sql("insert into noise select n, repeat('x', 500) from generate_series(1, 5000) n").await;
    let end = shop.number("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").await;
    until("the slot has passed it", async || {
        let confirmed = "select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint from pg_replication_slots where database = current_database()";
        shop.number(confirmed).await + 65_536 >= end
    })
    .await;
    assert!(all(&mut follower).await.is_empty());
}

#[tokio::test]
async fn unwatch_drops_slot_and_publication_with_the_last_feed() {
    let shop = Shop::with(ORDERS).await;
    let mut one = follow(&shop, Start::Now).await;
    let other = shop.source().wal("orders").named(feed("other"));
    other.open(&consumer("other"), &Start::Now).await.unwrap();
    all(&mut one).await;
    is_read(&shop).await;
    other.close(&consumer("other")).await.unwrap();
    assert!(slot(&shop).await.is_some());
    one.capture.close(&consumer("orders")).await.unwrap();
    let left = "select (select count(*) from pg_replication_slots where database = current_database()) + (select count(*) from pg_publication)";
    assert_eq!(shop.number(left).await, 0);
    assert_eq!(slot(&shop).await, None);
}

#[tokio::test]
async fn a_recreated_slot_is_noticed_and_nothing_is_skipped() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(all(&mut follower).await.len(), 1);
    let name = slot(&shop).await.unwrap().name;
    drop(follower);
    until("nobody reads the slot", async || !slot(&shop).await.unwrap().active).await;
    shop.sql(&format!("select pg_drop_replication_slot('{name}')")).await;
    shop.sql("insert into orders values (2, 2)").await;
    shop.sql(&format!("select pg_create_logical_replication_slot('{name}', 'pgoutput')")).await;
    shop.sql("insert into orders values (3, 3)").await;
    let capture = shop.source().wal("orders").partitions(4);
    let refused = capture.open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("made anew or moved"), "{refused}");
    // `watch` makes it anew, and positions of before are refused.
    capture.install(&consumer("orders"), &Start::Now).await.unwrap();
    shop.sql("insert into orders values (4, 4)").await;
    let mut again =
        Follower::open(shop.source().wal("orders").partitions(1).named(feed("again")), Start::Beginning)
            .await;
    assert_eq!(all(&mut again).await.len(), 4);
}

#[tokio::test]
async fn a_lost_slot_stops_the_feed_with_the_remedy() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = follow(&shop, Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(all(&mut follower).await.len(), 1);
    let name = slot(&shop).await.unwrap().name;
    until("the slot can be dropped", async || {
        let end = format!("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{name}' and active");
        run(&shop.writer, &end).await;
        shop.writer.execute(&format!("select pg_drop_replication_slot('{name}')"), &[]).await.is_ok()
    })
    .await;
    let said = attention(&mut follower).await;
    assert!(said.contains("is gone"), "{said}");
}
