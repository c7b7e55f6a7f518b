//! Existing rows: each once as it was, before everything that happened to it since, and nothing waits for them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim::source::{Feed, Limit, Start};
use seriatim::{Change, Op, Row, Value};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, by_key, expected, run};

/// A consumer that keeps sums by differences, as totals do: it is right only if each row is told once as it was, and then
/// every change of it, in order.
#[derive(Default)]
struct Checker {
    sum: i64,
    rows: BTreeMap<String, Row>,
    ids: HashSet<u64>,
}

impl Checker {
    fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            assert!(self.ids.insert(change.id), "once: {change:?}");
            let key = change.key.as_ref().unwrap().to_string();
            let known = self.rows.get(&key).cloned();
            match change.op {
                Op::Upsert | Op::Insert => assert_eq!(known, None, "it is new: {change:?}"),
                _ => assert_eq!(known, change.before, "nothing is missing in between: {change:?}"),
            }
            self.sum += amount(&change.after) - amount(&change.before);
            match change.after {
                Some(row) => drop(self.rows.insert(key, row)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }
}

fn amount(row: &Option<Row>) -> i64 {
    match row.as_ref().and_then(|row| row.get("amount")) {
        Some(Value::Integer(amount)) => *amount,
        _ => 0,
    }
}

#[tokio::test]
async fn existing_rows_come_first_class_and_changes_made_since_come_as_themselves() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 1), (2, 2), (3, 3), (4, 4)").await;
    let mut follower = shop.follow(Start::Beginning).await;
    shop.sql("update orders set amount = 20 where id = 2; delete from orders where id = 3").await;
    shop.sql("insert into orders values (5, 5)").await;
    shop.sql("update orders set id = 40 where id = 4").await;
    assert_eq!(
        by_key(&follower.all().await),
        expected(&[
            (1, &["upsert 1"]),
            (2, &["upsert 2", "update 20"]),
            (3, &["upsert 3", "delete"]),
            (4, &["upsert 4", "delete"]),
            (5, &["insert 5"]),
            (40, &["insert 4"])
        ])
    );
    assert_eq!(follower.all().await, []);
}

#[tokio::test]
async fn changes_are_not_kept_waiting_by_existing_rows() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 5000) g").await;
    let mut follower = shop.follow(Start::Beginning).await;
    let limit = Limit { rows: 100, bytes: usize::MAX };
    follower.read(limit).await;
    shop.sql("update orders set amount = 1 where id = 5000").await;
    shop.sql("select seriatim.tick()").await;
    let mut reads = 0;
    loop {
        let (changes, _) = follower.read(limit).await;
        if changes.iter().any(|change| change.op == Op::Update) {
            break;
        }
        reads += 1;
    }
    assert!(reads < 5, "{reads}");
    let backfill = follower.capture.backfill(&follower.cursors[0].after).await.unwrap().unwrap();
    assert!(backfill.total == 5000 && backfill.done < 1000, "{backfill:?}");
    follower.all().await;
    assert_eq!(follower.capture.backfill(&follower.cursors[0].after).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_kept_by_differences_come_out_right_while_others_write() {
    const ROWS: i64 = 3000;
    let shop = Shop::with(ORDERS).await;
    shop.sql(&format!("insert into orders select g * 2, g from generate_series(1, {ROWS}) g")).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..6u64 {
        let (session, stop) = (shop.session().await, stop.clone());
        writers.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(writer);
            while !stop.load(Ordering::Relaxed) {
                let id = random.i64(1..ROWS * 2);
                let sql = match random.u8(0..6) {
                    0 => format!("delete from orders where id between {id} and {}", id + random.i64(0..5)),
                    1 => format!("insert into orders values ({id}, 7) on conflict (id) do update set amount = excluded.amount + 1"),
                    2 => format!("begin; update orders set amount = amount + 1 where id = {id}; select pg_sleep(0.02); rollback"),
                    3 => format!("begin; update orders set amount = amount + 2 where id = {id}; select pg_sleep(0.02); commit"),
                    _ => format!("update orders set amount = amount + 3 where id between {id} and {}", id + 3),
                };
                // Writers may get into each other's way: a deadlock rolls one of them back.
                if session.batch_execute(&sql).await.is_err() {
                    drop(session.batch_execute("rollback").await);
                }
            }
        }));
    }
    let mut follower = shop.follow(Start::Beginning).await;
    let mut checker = Checker::default();
    let limit = Limit { rows: 50, bytes: usize::MAX };
    while follower.cursors.iter().any(|cursor| cursor.after.to_string().contains('+')) {
        let (changes, _) = follower.read(limit).await;
        checker.take(changes);
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    checker.take(follower.all().await);
    assert_eq!(checker.sum, shop.number("select coalesce(sum(amount), 0)::bigint from orders").await);
    assert_eq!(checker.rows.len() as i64, shop.number("select count(*) from orders").await);
}

#[tokio::test]
async fn a_backfill_goes_on_from_any_position_with_the_same_ids() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, g from generate_series(1, 60) g").await;
    let mut follower = shop.follow(Start::Beginning).await;
    shop.sql(
        "update orders set amount = amount + 100 where id % 7 = 0; delete from orders where id % 11 = 0",
    )
    .await;
    let start = follower.cursors.clone();
    let all = follower.all_by(Limit { rows: 10, bytes: usize::MAX }).await;
    for change in &all {
        let of_partition: Vec<_> =
            all.iter().filter(|other| other.partition == change.partition).cloned().collect();
        let at = of_partition.iter().position(|other| other.id == change.id).unwrap();
        follower.cursors =
            start.iter().filter(|cursor| cursor.partition == change.partition).cloned().collect();
        follower.cursors[0].after = change.position.clone();
        let rest = follower.all_by(Limit { rows: 10, bytes: usize::MAX }).await;
        let ids = |changes: &[Change]| {
            changes.iter().map(|change| change.id).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(ids(&rest), ids(&of_partition[at + 1..]), "after {}", change.position);
        assert_eq!(rest.len(), of_partition.len() - at - 1);
        assert_eq!(by_key(&rest), by_key(&of_partition[at + 1..]));
    }
}

#[tokio::test]
async fn a_key_that_names_several_rows_is_filled_row_by_row() {
    let shop = Shop::with("create table orders (id bigint primary key, customer int, amount int)").await;
    shop.sql("insert into orders values (1, 7, 1), (2, 7, 2), (3, 8, 3)").await;
    let capture = shop.source().journal("orders").partitions(4).key(vec!["customer".to_owned()]);
    let mut follower = Follower::open(capture, Start::Beginning).await;
    shop.sql("update orders set amount = 20 where id = 2; update orders set customer = 8 where id = 1").await;
    let changes = follower.all().await;
    let of = |customer: i64| {
        let key = format!("{{\"customer\":{customer}}}");
        let mut told: Vec<_> = changes
            .iter()
            .filter(|change| change.key.as_ref().unwrap().to_string() == key)
            .map(|change| {
                let row = change.after.as_ref().or(change.before.as_ref()).unwrap();
                format!(
                    "{} {} {}",
                    row.get("id").unwrap().to_json(),
                    change.op,
                    row.get("amount").unwrap().to_json()
                )
            })
            .collect();
        // Rows of one key that have nothing to do with each other may come in any order.
        told.sort_by_key(|told| told.split(' ').next().unwrap().to_owned());
        told
    };
    assert_eq!(of(7), ["1 upsert 1", "1 delete 1", "2 upsert 2", "2 update 20"]);
    assert_eq!(of(8), ["1 insert 1", "3 upsert 3"]);
}

#[tokio::test]
async fn rows_are_named_by_text_uuid_and_composite_keys_too() {
    let shop = Shop::with(
        "create table orders (a text collate \"C\", b uuid default gen_random_uuid(), c numeric, amount int, primary key (a, b, c))",
    )
    .await;
    shop.sql(
        "insert into orders (a, c, amount) select 'k' || g % 7, g / 3.0, g from generate_series(1, 100) g",
    )
    .await;
    let mut follower = shop.follow(Start::Beginning).await;
    shop.sql(
        "update orders set amount = amount + 1 where amount % 5 = 0; delete from orders where amount % 9 = 0",
    )
    .await;
    let mut checker = Checker::default();
    checker.take(follower.all_by(Limit { rows: 7, bytes: usize::MAX }).await);
    assert_eq!(checker.sum, shop.number("select sum(amount) from orders").await);
    assert_eq!(checker.rows.len() as i64, shop.number("select count(*) from orders").await);
}

#[tokio::test]
async fn a_truncate_in_the_middle_of_a_backfill_leaves_what_came_after_it() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, g from generate_series(1, 100) g").await;
    let mut follower = shop.follow(Start::Beginning).await;
    let mut changes = follower.read(Limit { rows: 10, bytes: usize::MAX }).await.0;
    shop.sql("truncate orders; insert into orders values (1, 1000)").await;
    changes.extend(follower.all().await);
    let first = by_key(&changes).remove("{\"id\":1}").unwrap();
    assert_eq!(first, ["upsert 1", "insert 1000"]);
    let after_truncate = |partition: u32| {
        let of_partition = changes.iter().filter(|change| change.partition.0 == partition);
        of_partition
            .skip_while(|change| change.op != Op::Truncate)
            .skip(1)
            .filter(|change| change.op == Op::Upsert)
            .count()
    };
    assert_eq!((0..4).map(after_truncate).sum::<usize>(), 0);
}

#[tokio::test]
async fn the_index_for_a_backfill_goes_when_it_is_over() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, g from generate_series(1, 100) g").await;
    let mut follower = shop.follow(Start::Beginning).await;
    let indexes = "select count(*) from pg_class where relname like 'journal_1_%_hash'";
    assert_eq!(shop.number(indexes).await, 3);
    follower.consumed().await;
    assert_eq!(shop.number(indexes).await, 3);
    follower.all_by(LIMIT).await;
    follower.consumed().await;
    assert_eq!(shop.number(indexes).await, 0);
}

/// How many of the indexes for a backfill can be used, and how many cannot.
async fn indexes(shop: &Shop) -> (i64, i64) {
    let are = async |valid: bool| {
        let of =
            "from pg_index i join pg_class c on c.oid = i.indexrelid where c.relname like 'journal_1_%_hash'";
        shop.number(&format!("select count(*) {of} and i.indisvalid = {valid}")).await
    };
    (are(true).await, are(false).await)
}

/// A journal of this many changes, with an index for a backfill whose making was broken off.
async fn with_an_unfinished_index(changes: i64) -> Shop {
    let shop = Shop::with(ORDERS).await;
    shop.follow(Start::Now).await;
    shop.sql(&format!("insert into orders select g, g from generate_series(1, {changes}) g")).await;
    let writer = shop.session().await;
    run(&writer, "begin; insert into orders values (0, 0)").await;
    let broken_off = shop.session().await;
    run(&broken_off, "set lock_timeout = '100ms'").await;
    let make = "create index concurrently journal_1_0_hash on seriatim.journal_1_0 (hash, id)";
    broken_off.batch_execute(make).await.unwrap_err();
    run(&writer, "rollback").await;
    assert_eq!(indexes(&shop).await, (0, 1));
    shop
}

/// So many changes that the index is made while others write.
const LARGE: i64 = 250_000;

fn named(shop: &Shop, name: &str) -> seriatim_postgres::Capture {
    shop.source().journal("orders").partitions(4).named(seriatim::FeedName::new(name).unwrap())
}

#[tokio::test]
async fn an_index_that_was_never_finished_is_made_anew() {
    for changes in [10, LARGE] {
        let shop = with_an_unfinished_index(changes).await;
        Follower::open(named(&shop, "second"), Start::Beginning).await;
        assert_eq!(indexes(&shop).await, (3, 0), "with {changes} changes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_find_an_unfinished_index_each_ends_with_one_that_is() {
    let shop = with_an_unfinished_index(LARGE).await;
    let mut followers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let capture = named(&shop, name);
        followers.push(tokio::spawn(Follower::open(capture, Start::Beginning)));
    }
    for follower in followers {
        follower.await.unwrap();
        assert_eq!(indexes(&shop).await, (3, 0));
    }
}

#[tokio::test]
async fn the_index_of_a_large_journal_is_made_although_a_writer_stays_open_for_long() {
    let shop = Shop::with(ORDERS).await;
    shop.follow(Start::Now).await;
    shop.sql(&format!("insert into orders select g, g from generate_series(1, {LARGE}) g")).await;
    let writer = shop.session().await;
    run(&writer, "begin; insert into orders values (0, 0)").await;
    assert!(shop.number("select pg_relation_size('seriatim.journal_1_0')").await > 17 << 20);
    let opened = tokio::spawn(Follower::open(named(&shop, "second"), Start::Beginning));
    let waits = "select count(*) from pg_stat_activity where query ~ 'create index' and wait_event_type = 'Lock' \
                 and clock_timestamp() - query_start > interval '7 seconds' and datname = current_database()";
    crate::support::until("its making has waited for longer than other statements may", async || {
        assert!(!opened.is_finished(), "it was given up");
        shop.number(waits).await == 1
    })
    .await;
    // Nobody waits behind it.
    shop.sql("insert into orders values (-1, 0)").await;
    run(&writer, "commit").await;
    opened.await.unwrap();
    assert_eq!(indexes(&shop).await, (3, 0));
}

#[tokio::test]
async fn rows_without_a_name_are_not_read_from_the_beginning() {
    let shop = Shop::with("create table orders (customer int, amount int)").await;
    let capture = || shop.source().journal("orders").key(vec!["customer".to_owned()]);
    let refused = Follower::try_open(capture(), Start::Beginning).await.err().unwrap().to_string();
    assert!(refused.contains("start = \"now\""), "{refused}");
    let mut follower = Follower::open(capture(), Start::Now).await;
    run(&shop.writer, "insert into orders values (1, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
}
