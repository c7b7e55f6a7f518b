//! The relay under trouble: what it tells the server while an append takes long, when its connection breaks, and when another session
//! still has the slot.

use std::process::Command;

use seriatim::source::{Feed as _, Start};
use seriatim_testkit::servers::Postgres;

use crate::journal_kit::{Follower, ORDERS, Shop, consumer};
use crate::support::{Place, until};
use crate::wal_kit::{all, follow, is_read, slot, told};

/// Appends to the journals wait from now on, in the middle of a statement, until [`release`].
async fn hold(shop: &Shop) {
    shop.sql(
        "create table held (); \
         create function hold() returns trigger language plpgsql as $$ begin \
           while exists (select from pg_class where relname = 'held' and relnamespace = 'public'::regnamespace) loop \
             perform pg_sleep(0.02); end loop; return null; end $$; \
         do $$ declare ring regclass; begin \
           for ring in select c.oid from pg_class c where c.relnamespace = 'seriatim'::regnamespace and c.relkind = 'r' \
               and c.relname ~ '^journal_[0-9]+_[0-9]+$' loop \
             execute format('create trigger hold before insert on %s for each statement execute function public.hold()', ring); \
           end loop; end $$",
    )
    .await;
}

async fn release(shop: &Shop) {
    shop.sql("drop table held").await;
}

/// Waits until the relay is in the middle of an append.
async fn is_held(shop: &Shop) {
    let sleeping =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
    until("an append is held", async || shop.number(sleeping).await > 0).await;
}

/// Where the log ends.
async fn end_of_log(shop: &Shop) -> i64 {
    shop.number("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").await
}

/// What the server was told, and may forget.
async fn confirmed(shop: &Shop) -> i64 {
    let sql = "select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint from pg_replication_slots where database = current_database()";
    shop.number(sql).await
}

async fn walsender(shop: &Shop) -> i64 {
    shop.number("select coalesce(max(active_pid), 0)::bigint from pg_replication_slots where database = current_database()").await
}

/// Waits until the server has heard so many more signs of life of the relay.
async fn heard(shop: &Shop, signs: usize) {
    let last = "select (extract(epoch from max(reply_time)) * 1000000)::bigint from pg_stat_replication r \
                join pg_replication_slots s on s.active_pid = r.pid where s.database = current_database()";
    let last = format!("select coalesce(({last}), 0)");
    for _ in 0..signs {
        let known = shop.number(&last).await;
        until("the server hears of the relay", async || shop.number(&last).await > known).await;
    }
}

async fn cut(shop: &Shop) {
    shop.sql("select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database() and active").await;
}

fn ids(changes: &[seriatim::Change]) -> Vec<String> {
    changes.iter().filter_map(|change| change.key.as_ref().map(ToString::to_string)).collect()
}

async fn alone(shop: &Shop) -> Follower {
    Follower::open(shop.source().wal("orders").partitions(1), Start::Now).await
}

#[tokio::test]
async fn begin_and_first_row_share_an_lsn() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = alone(&shop).await;
    assert!(all(&mut follower).await.is_empty());
    for round in 1..=8 {
        // The relay begins where the last transaction ended: there, the next one begins with its first row.
        shop.sql(&format!("insert into orders values ({round}, 0)")).await;
        cut(&shop).await;
        assert_eq!(ids(&all(&mut follower).await), [format!("{{\"id\":{round}}}")]);
    }
}

#[tokio::test]
async fn positions_are_commit_lsn_and_index_within_the_transaction() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = alone(&shop).await;
    let late = shop.session().await;
    late.batch_execute("begin; insert into orders values (1, 0)").await.unwrap();
    shop.sql("insert into orders values (2, 0)").await;
    assert_eq!(ids(&all(&mut follower).await), [r#"{"id":2}"#]);
    // The first row of the late transaction lies before what is kept; its commit does not.
    cut(&shop).await;
    shop.sql("insert into orders values (4, 0)").await;
    assert_eq!(ids(&all(&mut follower).await), [r#"{"id":4}"#]);
    late.batch_execute("insert into orders values (3, 0); commit").await.unwrap();
    assert_eq!(
        ids(&all(&mut follower).await),
        [r#"{"id":1}"#, r#"{"id":3}"#],
        "as they committed, in their order"
    );
}

#[tokio::test]
async fn the_confirmed_lsn_never_passes_what_is_not_kept() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = alone(&shop).await;
    assert!(all(&mut follower).await.is_empty());
    hold(&shop).await;
    let before = end_of_log(&shop).await;
    shop.sql("insert into orders values (1, 0)").await;
    is_held(&shop).await;
    heard(&shop, 2).await;
    assert!(confirmed(&shop).await <= before, "it is not kept yet");
    // Whoever comes next has it sent again.
    cut(&shop).await;
    release(&shop).await;
    assert_eq!(ids(&all(&mut follower).await), [r#"{"id":1}"#]);
    until("it is confirmed", async || confirmed(&shop).await > before).await;
}

#[tokio::test]
async fn a_keepalive_never_acknowledges_unkept_changes() {
    let shop = Shop::with(&format!("{ORDERS}; create table noise (n int, t text)")).await;
    // The server asks for signs of life again and again.
    shop.sql("do $$ begin execute format('alter database %I set wal_sender_timeout = ''12s''', current_database()); end $$").await;
    let mut follower = alone(&shop).await;
    assert!(all(&mut follower).await.is_empty());
    hold(&shop).await;
    let before = end_of_log(&shop).await;
    // More than is kept in memory: the relay stands in the middle of the transaction.
    shop.sql("insert into orders select n, 0 from generate_series(1, 3000) n").await;
    is_held(&shop).await;
    shop.sql("insert into noise select n, repeat('x', 500) from generate_series(1, 5000) n").await;
    heard(&shop, 2).await;
    assert!(confirmed(&shop).await <= before, "the noise lies behind changes that are not kept");
    cut(&shop).await;
    release(&shop).await;
    assert_eq!(all(&mut follower).await.len(), 3000);
}

#[tokio::test]
async fn a_slow_reader_keeps_its_walsender() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("do $$ begin execute format('alter database %I set wal_sender_timeout = ''8s''', current_database()); end $$").await;
    let mut follower = alone(&shop).await;
    assert!(all(&mut follower).await.is_empty());
    hold(&shop).await;
    is_read(&shop).await;
    let (reader, began) = (walsender(&shop).await, seriatim::clock::now());
    shop.sql("insert into orders values (1, 0)").await;
    is_held(&shop).await;
    // Without signs of life in the middle of an append, the server would have ended the session after eight seconds.
    heard(&shop, 3).await;
    assert!(began.elapsed().as_secs() >= 9, "an append that takes longer than the server waits");
    assert_eq!(walsender(&shop).await, reader);
    release(&shop).await;
    assert_eq!(all(&mut follower).await.len(), 1);
    assert_eq!(walsender(&shop).await, reader);
}

#[tokio::test]
async fn the_decoder_forgets_its_transaction_on_reconnect() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = alone(&shop).await;
    assert!(all(&mut follower).await.is_empty());
    hold(&shop).await;
    shop.sql("begin; insert into orders select n, 0 from generate_series(1, 3000) n; update orders set amount = 1 where id <= 10; commit").await;
    is_held(&shop).await;
    // Half of it is read, and some of that is appended and not committed.
    cut(&shop).await;
    release(&shop).await;
    let changes = all(&mut follower).await;
    let expected = (1..=3000).chain(1..=10).map(|id| format!("{{\"id\":{id}}}"));
    assert!(ids(&changes).into_iter().eq(expected), "{} changes, each once and in order", changes.len());
    shop.sql("insert into orders values (3001, 0)").await;
    assert_eq!(told(&all(&mut follower).await), [r#"insert {"id":3001} - {"id":3001,"amount":0}"#]);
}

/// Sends a signal to a server's process.
fn signal(name: &str, process: i64) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn a_take_over_waits_for_the_old_walsender() {
    let shop = Shop::with(ORDERS).await;
    let mut first = follow(&shop, Start::Now).await;
    assert!(all(&mut first).await.is_empty());
    is_read(&shop).await;
    let old = walsender(&shop).await;
    // It does not notice that its reader is gone, nor that it is told to end.
    signal("-STOP", old);
    let cursors = first.cursors.clone();
    drop(first);
    shop.sql("insert into orders select n, 0 from generate_series(1, 20) n").await;
    let mut second = Follower {
        capture: shop.source().wal("orders").partitions(4),
        consumer: consumer("orders"),
        cursors,
    };
    second.capture.open(&second.consumer, &Start::Now).await.unwrap();
    assert!(second.read(crate::journal_kit::LIMIT).await.0.is_empty());
    until("another one wants the slot", async || {
        shop.number("select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'walsender'").await == 2
    })
    .await;
    assert_eq!(walsender(&shop).await, old);
    signal("-CONT", old);
    assert_eq!(all(&mut second).await.len(), 20, "each once");
    assert_ne!(walsender(&shop).await, old);
}

#[tokio::test]
async fn a_slot_whose_log_was_removed_stops_the_feed_with_the_remedy() {
    let server = Postgres::start().unwrap();
    let shop = Shop::on(Place::on(&server), ORDERS).await;
    shop.sql("alter system set max_slot_wal_keep_size = '1MB'").await;
    shop.sql("select pg_reload_conf()").await;
    let mut follower = alone(&shop).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(all(&mut follower).await.len(), 1);
    drop(follower);
    until("nobody reads the slot", async || !slot(&shop).await.unwrap().active).await;
    until("the server removes the log", async || {
        shop.sql("insert into orders select coalesce(max(id), 0) + 1, 0 from orders").await;
        shop.sql("select pg_switch_wal()").await;
        shop.sql("checkpoint").await;
        shop.number("select count(*) from pg_replication_slots where wal_status = 'lost'").await == 1
    })
    .await;
    let capture = shop.source().wal("orders").partitions(1);
    let refused = capture.open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("max_slot_wal_keep_size") && refused.contains("seriatim watch"), "{refused}");
}
