//! A log against transactions that overlap: nothing is missed, whoever commits when.

use seriatim::source::Start;
use seriatim_postgres::tokio_postgres::Client;

use crate::log_kit::{Follower, ORDERS, Shop, told, values};
use crate::support::until;

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
}

#[tokio::test]
async fn late_commit_is_not_skipped() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    let first = shop.place.client().await;
    run(&first, "begin; insert into orders values (1, 1)").await;
    shop.sql("insert into orders values (2, 1)").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":2}"#]);
    shop.sql("insert into orders values (3, 1)").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":3}"#]);
    run(&first, "commit").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":1}"#]);
}

#[tokio::test]
async fn a_lower_xid_that_writes_second_wins() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("create table elsewhere (x int); insert into orders values (7, 0)").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    let first = shop.place.client().await;
    run(&first, "begin; insert into elsewhere values (1)").await;
    shop.sql("update orders set amount = 1 where id = 7").await;
    assert_eq!(values(&follower.drain().await, "amount"), ["1"]);
    run(&first, "update orders set amount = 2 where id = 7; commit").await;
    assert_eq!(values(&follower.drain().await, "amount"), ["2"]);
}

#[tokio::test]
async fn rolled_back_and_prepared_transactions_behave() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("begin; insert into orders values (1, 1); rollback").await;
    shop.sql("begin; savepoint s; insert into orders values (2, 1); rollback to s; insert into orders values (3, 1); commit").await;
    shop.sql("begin; insert into orders values (4, 1); prepare transaction 'later'").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":3}"#]);
    shop.sql("commit prepared 'later'").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":4}"#]);
}

#[tokio::test]
async fn a_locked_row_of_the_log_holds_nobody_up() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 3) g").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Beginning).await;
    follower.drain().await;
    shop.sql("update orders set amount = 1").await;
    follower.drain().await;
    follower.consumed().await;
    let holder = shop.place.client().await;
    run(
        &holder,
        "begin; select * from seriatim.log_id_orders_places for update; \
                  select * from seriatim.log_id_orders_keys where id = 1 for update",
    )
    .await;
    // Whoever writes row 1 waits for the holder, as for any locked row. All others, and the sequencer, do not.
    shop.sql("update orders set amount = 2 where id > 1").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":2}"#, r#"upsert {"id":3}"#]);
    run(&holder, "rollback").await;
    shop.sql("update orders set amount = 3").await;
    assert_eq!(follower.drain().await.len(), 3);
    follower.consumes_until(&shop, 3, "select count(*) from seriatim.log_id_orders_places").await;
}

#[tokio::test]
async fn a_sequencer_that_stops_before_its_commit_skips_no_number() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    let stopped = shop.place.client().await;
    run(&stopped, "begin; select seriatim.log_id_orders_update_seq()").await;
    shop.sql("insert into orders values (2, 1)").await;
    let second = shop.number("select coalesce(seriatim.log_id_orders_update_seq(), -1)").await;
    assert_eq!(second, -1, "one at a time");
    let (changes, caught_up) = follower.read(crate::log_kit::LIMIT).await;
    assert!(changes.is_empty() && !caught_up, "what is committed and has no number is not passed over");
    run(&stopped, "commit").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":1}"#, r#"upsert {"id":2}"#]);
    run(&stopped, "begin; select seriatim.log_id_orders_update_seq(); rollback").await;
    shop.sql("insert into orders values (3, 1)").await;
    run(&stopped, "begin; select seriatim.log_id_orders_update_seq(); rollback").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":3}"#]);
}

#[tokio::test]
async fn an_open_transaction_elsewhere_stalls_nothing() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("create table elsewhere (x int)").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    let (idle, other) = (shop.place.client().await, Shop::with("create table x (x int)").await);
    run(&idle, "begin isolation level repeatable read; insert into elsewhere values (1)").await;
    run(&other.writer, "begin; insert into x values (1)").await;
    for amount in 0..20 {
        shop.sql(&format!(
            "insert into orders values (1, {amount}) on conflict (id) do update set amount = {amount}"
        ))
        .await;
        assert_eq!(values(&follower.drain().await, "amount"), [amount.to_string()]);
    }
    run(&idle, "commit").await;
    assert!(follower.drain().await.is_empty());
}

#[tokio::test]
async fn two_hundred_writers_on_fifty_keys_leave_the_last_value_with_everybody() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 50) g").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(4), Start::Beginning).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..200i64 {
        let client = shop.place.client().await;
        writers.spawn(async move {
            for round in 0..20i64 {
                let id = (writer * 7 + round * 13) % 50 + 1;
                run(&client, &format!("update orders set amount = amount + 1 where id = {id}")).await;
            }
        });
    }
    let mut last = std::collections::BTreeMap::new();
    while !writers.is_empty() {
        while writers.try_join_next().transpose().unwrap().is_some() {}
        let (changes, _) = follower.read(crate::log_kit::LIMIT).await;
        for (change, amount) in changes.iter().zip(values(&changes, "amount")) {
            let amount: i64 = amount.parse().unwrap();
            let before = last.insert(change.key.as_ref().unwrap().to_string(), amount);
            assert!(before.is_none_or(|before| before <= amount), "a state never goes back");
        }
    }
    follower.drain().await;
    let expected = shop.texts("select format('[%s,%s]', id, amount) from orders order by id::text").await;
    let mut states: Vec<String> = follower.states.into_values().collect();
    let mut expected_sorted = expected.clone();
    states.sort();
    expected_sorted.sort();
    assert_eq!(states, expected_sorted);
    assert_eq!(shop.number("select sum(amount)::bigint from orders").await, 4000);
}

#[tokio::test]
async fn one_giant_statement_does_not_hold_up_the_others() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 30000) g").await;
    let follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    drop(follower);
    shop.sql("update orders set amount = 1").await;
    shop.sql("insert into orders values (99999, 1)").await;
    let mut passes = 0;
    until("the small one has a number", || {
        passes += 1;
        async {
            shop.number("select coalesce(seriatim.log_id_orders_update_seq(1000), 0)").await;
            shop.number("select count(*) from seriatim.log_id_orders where id = 99999").await == 1
        }
    })
    .await;
    assert!(passes <= 3, "it waited for {passes} passes");
    let left = shop.number("select seriatim.log_id_orders_unsequenced(100000)").await;
    assert!(left > 20_000, "the giant is still under way: {left}");
    let mut given = 1;
    while given > 0 {
        given = shop.number("select coalesce(seriatim.log_id_orders_update_seq(5000), 1)").await;
    }
    assert_eq!(shop.number("select count(distinct id) from seriatim.log_id_orders").await, 30001);
}

#[tokio::test]
async fn a_transaction_that_gives_numbers_and_then_writes_on_loses_nothing() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    let other = shop.place.client().await;
    run(&shop.writer, "begin; insert into orders values (1, 1)").await;
    run(&other, "insert into orders values (2, 1)").await;
    run(&shop.writer, "select seriatim.log_id_orders_update_seq(); update orders set amount = 2; insert into orders values (3, 1)").await;
    run(&other, "insert into orders values (4, 1)").await;
    run(&shop.writer, "commit").await;
    follower.drain().await;
    let mut states: Vec<_> = follower.states.into_values().collect();
    states.sort();
    assert_eq!(states, ["[1,2]", "[2,2]", "[3,1]", "[4,1]"]);
}

#[tokio::test]
async fn a_table_that_somebody_alters_does_not_hold_the_sequencer_up() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("create table others (id bigint primary key); insert into orders values (1, 1)").await;
    let follower = Follower::open(shop.source().log("orders").partitions(1), Start::Beginning).await;
    let altering = shop.place.client().await;
    run(&altering, "begin; lock table orders in access exclusive mode").await;
    let pruning = tokio::spawn(async move { follower.consumed().await });
    let listing = shop.place.client().await;
    let listing = tokio::spawn(async move { run(&listing, "select seriatim.log_list('orders')").await });
    until("both wait for the table", || async {
        shop.number("select count(*) from pg_locks where not granted and relation = 'orders'::regclass").await
            >= 2
    })
    .await;
    until("the lock is free, but for the moments when numbers are given", || async {
        shop.number("select coalesce(seriatim.log_id_orders_update_seq(), -1)").await == 0
    })
    .await;
    run(&altering, "rollback").await;
    pruning.await.unwrap();
    listing.await.unwrap();
}

#[tokio::test]
async fn a_row_that_one_statement_writes_twice_leads_to_its_last_state() {
    let shop = Shop::with(
        "create table parents (id int primary key);
         create table orders (id int primary key, a int references parents on update cascade on delete cascade,
             b int references parents on update cascade on delete set null, up int references orders on update cascade on delete set null)",
    )
    .await;
    shop.sql("insert into parents values (1), (2); insert into orders values (1, 1, 1, 1), (2, 1, 2, 1), (3, 2, 1, 2)").await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Beginning).await;
    follower.drain().await;
    for sql in [
        "update parents set id = id + 10",
        "update orders set id = id + 10",
        "update orders set id = 5 where id = 11",
        "delete from parents where id = 11",
        "insert into orders values (1, 12, 12, 1), (9, 12, 12, 1) on conflict (id) do update set b = null",
        "with gone as (delete from orders where id = 9 returning *) insert into orders select 8, a, b, 8 from gone",
    ] {
        shop.sql(sql).await;
        follower.drain().await;
        let mut table =
            shop.texts("select replace(jsonb_build_array(id, a, b, up)::text, ' ', '') from orders").await;
        let states = follower.states.values().map(|state| state.replace("\"null\"", "null"));
        let mut states: Vec<_> = states.collect();
        table.sort();
        states.sort();
        assert_eq!(states, table, "after {sql}");
    }
}
