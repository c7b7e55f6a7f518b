//! Filters and chosen columns: a feed with a filter is the feed of a table that has no other rows.

use std::collections::BTreeMap;

use seriatim::change::{Change, Op};
use seriatim::source::{Install, Limit, SourceError, Start};
use seriatim::{FeedName, Row};
use seriatim_postgres::Capture;

use crate::journal_kit::{Follower, LIMIT, Shop};
use crate::log_kit::{Follower as LogFollower, told};
use crate::window_kit::{Follower as WindowFollower, keys, orders};

const SCHEMA: &str = "
    create table orders (id bigint primary key, customer text, amount numeric, status text, at timestamptz, tags text[]);
    insert into orders values
        (1, 'ada', 10, 'paid', '2026-01-01T00:00:00Z', '{a,b}'), (2, 'bob', 20.50, 'open', null, null),
        (3, 'eve', 30, 'paid', '2026-06-01T00:00:00Z', '{}')";

fn paid(shop: &Shop) -> Capture {
    shop.source().journal("orders").filter("status = 'paid'").partitions(1)
}

fn named(name: &str) -> FeedName {
    FeedName::new(name).unwrap()
}

#[tokio::test]
async fn a_journal_tells_of_rows_that_come_into_the_filter_and_leave_it() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(paid(&shop), Start::Beginning).await;
    assert_eq!(told(&follower.all().await), ["upsert {\"id\":1}", "upsert {\"id\":3}"]);
    shop.sql(
        "update orders set amount = 11 where id = 1;
         update orders set status = 'paid' where id = 2;
         update orders set status = 'void' where id = 3;
         update orders set amount = 31 where id = 3;
         insert into orders values (4, 'ann', 1, 'open'), (5, 'ann', 1, 'paid');
         delete from orders where id in (4, 5)",
    )
    .await;
    let changes = follower.all().await;
    let expected = ["update 1", "insert 2", "delete 3", "insert 5", "delete 5"];
    assert_eq!(told(&changes), expected.map(|told| told.replace(' ', " {\"id\":") + "}"));
    assert!(changes[1].before.is_none() && changes[1].after.is_some(), "it was not there before");
    let left = changes[2].before.as_ref().unwrap();
    assert_eq!(left.get("status").unwrap().to_json(), "paid", "what it was when it was there");
    assert!(changes[2].after.is_none());
    shop.sql("truncate orders").await;
    assert_eq!(follower.all().await[0].op, Op::Truncate, "which is about all rows");
}

#[tokio::test]
async fn a_log_forgets_rows_that_left_the_filter_where_it_has_deletes() {
    for deletes in [false, true] {
        let shop = Shop::with(SCHEMA).await;
        let log = shop.source().log("orders").filter("status = 'paid'").partitions(4);
        let log = if deletes { log.with_deletes() } else { log };
        let mut follower = LogFollower::open(log, Start::Now).await;
        for sql in
            ["update orders set amount = 11 where id = 1", "update orders set status = 'void' where id = 3"]
        {
            shop.sql(sql).await;
        }
        shop.sql("delete from orders where id = 2").await;
        let mut changes = told(&follower.drain().await);
        changes.sort();
        let expected: &[&str] = match deletes {
            false => &["upsert {\"id\":1}"],
            true => &["delete {\"id\":2}", "delete {\"id\":3}", "upsert {\"id\":1}"],
        };
        assert_eq!(changes, expected);
    }
}

#[tokio::test]
async fn a_window_passes_over_rows_that_do_not_match() {
    let shop = orders(&[10, 20, 30, 40]).await;
    shop.sql("update orders set item = 'rum' where id in (2, 4)").await;
    let window = shop.source().window("orders", "updated_at").filter("orders.item = 'rum'");
    let mut follower = WindowFollower::open(window.columns(vec!["item".to_owned()]), Start::Beginning).await;
    let changes = follower.drain_all().await;
    assert_eq!(keys(&changes), [2, 4]);
    assert_eq!(changes[0].after.as_ref().unwrap().to_json().to_string(), r#"{"id":2,"item":"rum"}"#);
    let query = shop.source().window_of_query("select *, 1 as t0 from orders", "updated_at");
    let query = query.key(vec!["id".to_owned()]).named(named("query")).filter("t0 = 1 and item <> 'rum'");
    let mut follower = WindowFollower::open(query, Start::Beginning).await;
    assert_eq!(keys(&follower.drain_all().await), [1, 3]);
}

#[tokio::test]
async fn a_filter_that_matches_nothing_lets_the_position_move_on() {
    let shop = Shop::with(SCHEMA).await;
    let mut journal = Follower::open(shop.source().journal("orders").filter("false"), Start::Beginning).await;
    let log = shop.source().log("orders").named(named("log")).filter("amount < 0");
    let mut log = LogFollower::open(log, Start::Beginning).await;
    assert!(journal.all().await.is_empty() && log.drain().await.is_empty());
    let before = (journal.cursors.clone(), log.cursors.clone());
    shop.sql("update orders set amount = amount + 1").await;
    assert!(journal.all().await.is_empty() && log.drain().await.is_empty());
    assert!(journal.cursors.iter().zip(&before.0).all(|(now, then)| now.after != then.after));
    assert!(log.cursors.iter().zip(&before.1).all(|(now, then)| now.after != then.after));
    journal.consumed().await;
    let shop = orders(&[10, 20]).await;
    let window = shop.source().window("orders", "updated_at").filter("false");
    let mut window = WindowFollower::open(window, Start::Beginning).await;
    let before = window.position();
    assert!(window.drain_all().await.is_empty());
    assert_ne!(window.position(), before);
}

#[tokio::test]
async fn another_filter_goes_on_where_the_last_one_was() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(paid(&shop), Start::Beginning).await;
    assert_eq!(follower.all().await.len(), 2);
    shop.sql("update orders set amount = 0").await;
    let cursors = follower.cursors.clone();
    let other = shop.source().journal("orders").filter("status <> 'paid'").partitions(1);
    let mut follower = Follower::open(other, Start::Beginning).await;
    follower.cursors = cursors.clone();
    assert_eq!(told(&follower.all().await), ["update {\"id\":2}"]);
    let mut follower = Follower::open(shop.source().journal("orders").partitions(1), Start::Beginning).await;
    follower.cursors = cursors;
    assert_eq!(follower.all().await.len(), 3, "and none at all");
}

#[tokio::test]
async fn a_filter_means_for_an_image_what_it_means_for_a_row() {
    let filters = [
        "amount = 20.5",
        "amount > '15' and at is null",
        "at > '2026-03-01'",
        "orders.customer in ('eve', 'bob')",
        "tags[1] = 'a'",
        "tags && array['b', 'x']",
        "lower(upper(customer)) like '%d%'",
        "length(status) = 4",
        "customer = 'x@seriatim.example' or customer = 'ada'",
        "null",
        "true",
    ];
    let shop = Shop::with(SCHEMA).await;
    for (index, filter) in filters.into_iter().enumerate() {
        let expected = shop.number(&format!("select count(*) from orders where {filter}")).await as usize;
        let capture = shop.source().journal("orders").named(named(&format!("f{index}"))).filter(filter);
        let mut follower = Follower::open(capture, Start::Beginning).await;
        assert_eq!(follower.all().await.len(), expected, "existing rows where {filter}");
        shop.sql("update orders set amount = amount").await;
        assert_eq!(follower.all().await.len(), expected, "changes where {filter}");
    }
}

fn json(row: Option<&Row>) -> String {
    row.map_or_else(String::new, |row| row.to_json().to_string())
}

#[tokio::test]
async fn only_the_columns_that_were_asked_for_are_delivered_and_the_key() {
    let shop = Shop::with(SCHEMA).await;
    let capture = paid(&shop).columns(vec!["Amount".to_owned()]);
    assert_eq!(capture.shape().await.unwrap().columns, ["id", "amount"]);
    let mut follower = Follower::open(capture, Start::Beginning).await;
    assert_eq!(json(follower.all().await[0].after.as_ref()), r#"{"id":1,"amount":"10"}"#);
    shop.sql(
        "alter table orders add column note text; update orders set note = 'x', amount = 12 where id = 1",
    )
    .await;
    let changes = follower.all().await;
    assert_eq!(json(changes[0].before.as_ref()), r#"{"id":1,"amount":"10"}"#);
    assert_eq!(json(changes[0].after.as_ref()), r#"{"id":1,"amount":"12"}"#);
    let log = shop.source().log("orders").named(named("log")).columns(vec!["status".to_owned()]);
    let mut follower = LogFollower::open(log, Start::Beginning).await;
    assert_eq!(json(follower.drain().await[0].after.as_ref()), r#"{"id":1,"status":"paid"}"#);
}

#[tokio::test]
async fn a_change_from_before_a_column_had_its_name_is_let_through() {
    let shop = Shop::with(SCHEMA).await;
    let mut first = Follower::open(shop.source().journal("orders").partitions(1), Start::Now).await;
    let before = first.cursors.clone();
    shop.sql("update orders set amount = 1 where id = 1").await;
    shop.sql("alter table orders rename column status to state").await;
    shop.sql("update orders set amount = 2 where id = 1; update orders set state = 'done' where id = 2")
        .await;
    first.all().await;
    let capture = shop.source().journal("orders").partitions(1).filter("state = 'done'");
    let mut follower = Follower::open(capture.columns(vec!["state".to_owned()]), Start::Now).await;
    follower.cursors = before;
    let changes = follower.all().await;
    assert_eq!(told(&changes), ["update {\"id\":1}", "insert {\"id\":2}"]);
    assert_eq!(json(changes[0].after.as_ref()), r#"{"id":1,"status":"paid"}"#, "by its old name");
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_with_a_sentence() {
    let shop = Shop::with(SCHEMA).await;
    shop.sql(
        "create sequence s; create function touch(int) returns bool language sql volatile as 'select true'",
    )
    .await;
    let expected = [
        ("amuont > 1", "column \"amuont\" does not exist"),
        ("amount >", "syntax error"),
        ("amount", "must be type boolean"),
        ("hash = 1", "column \"hash\" does not exist"),
        ("before is null", "column \"before\" does not exist"),
        ("1 = 1) or (1 = 1", "that closes nothing"),
        ("amount > 1; drop table orders", "semicolon"),
        ("id in (select id from orders)", "query in it"),
        ("nextval('s') > 0", "nextval() is volatile"),
        ("public.TOUCH(1)", "touch() is volatile"),
        ("pg_advisory_lock(1) is null", "pg_advisory_lock() is volatile"),
        ("count(*) > 1", "aggregate functions are not allowed"),
        ("$1 = 1", "has a '$' in it"),
        ("", "is empty"),
    ];
    for (filter, why) in expected {
        let captures =
            [shop.source().journal("orders").filter(filter), shop.source().log("orders").filter(filter)];
        for capture in captures {
            let said = capture.check().await.unwrap_err().to_string();
            assert!(
                said.contains("feed orders: `where` is no filter") && said.contains(why),
                "{filter}: {said}"
            );
            let refused = Follower::try_open(capture, Start::Beginning).await.err().unwrap();
            assert!(matches!(refused, SourceError::NeedsAttention { .. }));
            assert_eq!(refused.to_string(), said, "run says what check says");
        }
        let said = shop.source().window("orders", "at").filter(filter).check().await.unwrap_err().to_string();
        assert!(said.contains(why), "a window where {filter}: {said}");
    }
    let said = shop.source().journal("orders").columns(vec!["amuont".to_owned()]).check().await.unwrap_err();
    assert!(said.to_string().contains("has no column \"amuont\"; did you mean \"amount\"?"), "{said}");
    let left = "select count(*) from pg_namespace where nspname = 'seriatim'";
    assert_eq!(shop.number(left).await, 0, "and nothing is written");
}

#[tokio::test]
async fn a_filter_whose_column_is_renamed_stops_the_feed_and_says_so() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(paid(&shop), Start::Now).await;
    shop.sql("update orders set amount = 1 where id = 1").await;
    assert_eq!(follower.all().await.len(), 1);
    shop.sql("alter table orders rename column status to state").await;
    shop.sql("update orders set amount = 2").await;
    let mut read = 0;
    let said = loop {
        match follower.try_read(LIMIT).await {
            Ok((changes, _)) => read += changes.len(),
            Err(error) => break error.to_string(),
        }
        assert!(read <= 3, "what nobody can tell is let through");
    };
    assert!(
        said.contains("`where` is no filter for \"orders\": status = 'paid': column \"status\""),
        "{said}"
    );
}

#[tokio::test]
async fn a_filter_that_has_no_answer_for_a_row_stops_the_feed_there_and_says_so() {
    let shop = Shop::with(SCHEMA).await;
    let capture = shop.source().journal("orders").partitions(1).filter("100 / amount > 1");
    let mut follower = Follower::open(capture, Start::Now).await;
    shop.sql("update orders set customer = 'x' where id = 1").await;
    assert_eq!(follower.all().await.len(), 1);
    let before = follower.cursors.clone();
    shop.sql("update orders set amount = 0 where id = 1").await;
    let said = loop {
        match follower.try_read(LIMIT).await {
            Ok((changes, _)) => assert!(changes.is_empty()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        said.contains("its `where` cannot be answered for a row of \"orders\": division by zero"),
        "{said}"
    );
    shop.sql("update orders set amount = 1 where id = 1").await;
    let mended = shop.source().journal("orders").partitions(1).filter("amount = 0 or 100 / amount > 1");
    let mut follower = Follower::open(mended, Start::Now).await;
    follower.cursors = before;
    assert_eq!(told(&follower.all().await), ["update {\"id\":1}", "update {\"id\":1}"], "nothing was passed");
}

/// What the changes make when they are applied one after another, each checked against what is there.
fn apply(rows: &mut BTreeMap<String, String>, change: &Change) {
    let key = change.key.as_ref().unwrap().to_string();
    let (before, after) = (change.before.as_ref().map(|row| json(Some(row))), change.after.as_ref());
    let had = match after {
        Some(row) => rows.insert(key, json(Some(row))),
        None => rows.remove(&key),
    };
    assert_eq!(had, before, "what was there is what it says: {change:?}");
}

/// Existing rows and changes come by turns: whatever happens, what they make is what the filter selects.
#[tokio::test]
async fn the_changes_make_what_the_filter_selects_while_existing_rows_are_read() {
    for (index, filter) in
        ["v % 3 = 0", "v > 5 and w = 'a'", "w is distinct from 'a'"].into_iter().enumerate()
    {
        let shop = Shop::with(
            "create table t (k int primary key, v int, w text);
             insert into t select k, k % 7, case when k % 2 = 0 then 'a' end from generate_series(1, 60) k",
        )
        .await;
        let capture = shop.source().journal("t").filter(filter).partitions(3);
        let mut follower = Follower::open(capture, Start::Beginning).await;
        let mut rows = BTreeMap::new();
        let mut random = 12_345u64 + index as u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..60 {
            let (k, v) = (next(70), next(9));
            let sql = match next(4) {
                0 => format!(
                    "insert into t values ({k}, {v}, 'a') on conflict (k) do update set v = excluded.v"
                ),
                1 => format!("update t set v = {v} where k = {k}"),
                2 => format!("update t set w = nullif(w, 'a'), v = v + 1 where k between {k} and {}", k + 5),
                _ => format!("delete from t where k = {k}"),
            };
            shop.sql(&sql).await;
            let (changes, _) = follower.read(Limit { rows: 5, bytes: usize::MAX }).await;
            changes.iter().for_each(|change| apply(&mut rows, change));
        }
        follower
            .all_by(Limit { rows: 7, bytes: usize::MAX })
            .await
            .iter()
            .for_each(|change| apply(&mut rows, change));
        let sql = format!("select row_to_json(t)::text from t where {filter} order by k");
        let mut expected: Vec<String> =
            shop.writer.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        expected.sort();
        let mut made: Vec<String> = rows.into_values().collect();
        made.sort();
        assert_eq!(made, expected, "where {filter}");
    }
}

#[tokio::test]
async fn no_row_gets_through_when_the_filters_column_is_dropped_under_a_running_journal() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(paid(&shop), Start::Now).await;
    shop.sql("update orders set amount = 1 where id = 1").await;
    assert_eq!(follower.all().await.len(), 1);
    shop.sql("alter table orders drop column status; insert into orders values (9, 'eve', 1)").await;
    shop.sql("select seriatim.tick()").await;
    let said =
        follower.try_read(LIMIT).await.expect_err("nobody can say whether the row matches").to_string();
    assert!(said.contains("status"), "{said}");
}

#[tokio::test]
async fn a_filter_may_speak_of_time_zones() {
    let shop = Shop::with(SCHEMA).await;
    let filter =
        "(at at time zone 'UTC')::date = date '2026-06-01' and AT AT  TIME\nZONE 'Asia/Tokyo' > '2026-01-01'";
    let mut journal = Follower::open(shop.source().journal("orders").filter(filter), Start::Beginning).await;
    assert_eq!(told(&journal.all().await), ["upsert {\"id\":3}"]);
    let log = shop.source().log("orders").named(named("log")).filter(filter);
    assert_eq!(told(&LogFollower::open(log, Start::Beginning).await.drain().await), ["upsert {\"id\":3}"]);
    shop.sql("alter table orders rename column at to moment").await;
    let of_another = shop.source().journal("orders").named(named("another"));
    let gone = of_another.filter("at at time zone 'UTC' > '2026-01-01'");
    assert!(Follower::try_open(gone, Start::Now).await.is_err(), "the table has no column at");
    let fine = shop
        .source()
        .journal("orders")
        .named(named("fine"))
        .filter("moment at time zone 'UTC' > '2026-01-01'");
    Follower::open(fine, Start::Now).await;
}
