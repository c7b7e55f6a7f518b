//! Windows: every row in its order, whatever its moment looks like, and again with the same id.

use std::num::NonZeroUsize;
use std::time::Duration;

use seriatim::jiff::Timestamp;
use seriatim::source::window::{Age, Clock};
use seriatim::source::{Cursor, Feed, Install, Start};
use seriatim::{Op, Partition, Position};
use seriatim_postgres::{Unit, WindowCapture};

use crate::log_kit::Shop;
use crate::window_kit::{Follower, keys, orders};

fn of_orders(shop: &Shop, excessive_count: usize) -> WindowCapture {
    let window = shop.source().window("orders", "updated_at").buffer(Duration::from_millis(50));
    window.excessive_count(NonZeroUsize::new(excessive_count).unwrap()).every(Duration::from_millis(1))
}

#[tokio::test]
async fn rows_come_by_their_moment_and_then_by_their_key() {
    let shop = orders(&[30, 10, 20, 10]).await;
    let mut follower = Follower::open(of_orders(&shop, 100), Start::Beginning).await;
    let changes = follower.drain().await;
    assert_eq!(keys(&changes), [2, 4, 3, 1]);
    assert!(changes.iter().all(|change| change.op == Op::Upsert && change.before.is_none()));
    assert_eq!(
        changes[0].to_json(),
        format!(
            r#"{{"feed":"orders","partition":0,"position":"1970-01-01T00:00:10Z [2]","key":{{"id":2}},"op":"upsert","at":"1970-01-01T00:00:10.000000Z","before":null,"after":{{"id":2,"item":"tea","updated_at":"1970-01-01T00:00:10Z"}},"id":{},"prev":null}}"#,
            changes[0].id
        )
    );
    assert_eq!(follower.position(), "1970-01-01T00:00:30Z [1]");
    assert!(follower.drain().await.is_empty(), "and none twice");
}

#[tokio::test]
async fn any_number_of_rows_may_share_a_moment() {
    for (seconds, excessive_count) in [
        (vec![1, 2, 3, 3], 3),
        (vec![1, 2, 3], 3),
        (vec![7; 10], 3),
        (vec![1, 7, 7, 7, 9], 1),
        (vec![7; 4], 4),
    ] {
        let shop = orders(&seconds).await;
        let mut follower = Follower::open(of_orders(&shop, excessive_count), Start::Beginning).await;
        let expected: Vec<i64> = (1..=seconds.len() as i64).collect();
        assert_eq!(keys(&follower.drain().await), expected, "{seconds:?} by {excessive_count}");
    }
}

#[tokio::test]
async fn a_text_of_another_form_that_sorts_before_the_place_is_told() {
    let shop = Shop::with("create table orders (id int primary key, at text)").await;
    shop.sql("insert into orders values (1, '2026-01-01T09:00:00')").await;
    let mut follower = Follower::open(shop.source().window("orders", "at"), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    shop.sql("insert into orders values (2, '2026-01-01 10:00:00')").await;
    let said = follower.try_read().await.expect_err("the row would never come").to_string();
    assert!(said.contains("the key 2") && said.contains("in one form"), "{said}");
    shop.sql("update orders set at = replace(at, ' ', 'T')").await;
    assert_eq!(keys(&follower.drain().await), [2], "and it comes when it is mended");
}

#[tokio::test]
async fn rows_before_one_without_a_moment_do_not_wait_for_it() {
    let shop = Shop::with("create table orders (id int primary key, at text)").await;
    let good = "'2026-01-01 00:00:01'";
    shop.sql(&format!("insert into orders values (1, {good}), (2, {good}), (3, '2026-01-01 77')")).await;
    let mut follower = Follower::open(shop.source().window("orders", "at"), Start::Beginning).await;
    assert_eq!(keys(&follower.read().await.0), [1, 2]);
    let said = follower.try_read().await.unwrap_err().to_string();
    assert!(said.contains("at of the row with the key 3"), "{said}");
}

#[tokio::test]
async fn a_page_is_never_larger_than_the_excessive_count() {
    let shop = orders(&[7; 10]).await;
    let mut follower = Follower::open(of_orders(&shop, 3), Start::Beginning).await;
    let mut pages = Vec::new();
    for _ in 0..4 {
        pages.push(keys(&follower.read().await.0));
    }
    assert_eq!(pages, [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9], vec![10]]);
}

#[tokio::test]
async fn every_form_of_time_is_followed_in_its_order() {
    let texts =
        |first: &str| [first.to_owned(), first.replace(":09", ":10"), first.replace("-01-01", "-01-02")];
    let numbers = |n: [i64; 3]| n.map(|n| n.to_string());
    for (of, unit, values, position) in [
        ("timestamptz", None, texts("2026-01-01 01:00:09.25+01"), "2026-01-02T00:00:09.25Z [3]"),
        ("timestamp", None, texts("2026-01-01 00:00:09.25"), "2026-01-02T00:00:09.25Z [3]"),
        ("timestamptz(0)", None, texts("2026-01-01 00:00:09+00"), "2026-01-02T00:00:09Z [3]"),
        ("date", None, ["2026-01-01", "2026-01-02", "2026-01-03"].map(str::to_owned), "2026-01-03 [3]"),
        ("text", None, texts("2026-01-01 00:00:09"), "2026-01-02 00:00:09 [3]"),
        ("varchar(40)", None, texts("2026-01-01T00:00:09.250Z"), "2026-01-02T00:00:09.250Z [3]"),
        (
            "text collate \"en-x-icu\"",
            None,
            texts("2026-01-01T00:00:09+00:00"),
            "2026-01-02T00:00:09+00:00 [3]",
        ),
        ("char(19)", None, texts("2026-01-01 00:00:09"), "2026-01-02 00:00:09 [3]"),
        ("int", Some(Unit::Seconds), numbers([9, 10, 11]), "11 [3]"),
        ("bigint", Some(Unit::Milliseconds), numbers([9000, 9250, 100_000]), "100000 [3]"),
        ("bigint", Some(Unit::Microseconds), numbers([9_000_000, 9_250_001, 100_000_000]), "100000000 [3]"),
    ] {
        let shop = Shop::with(&format!("create table orders (id bigint primary key, at {of})")).await;
        for (id, value) in [(2, &values[1]), (3, &values[2]), (1, &values[0])] {
            shop.sql(&format!("insert into orders values ({id}, '{value}')")).await;
        }
        for excessive_count in [1, 10] {
            let window = shop.source().window("orders", "at").every(Duration::from_millis(1));
            let window = window.excessive_count(NonZeroUsize::new(excessive_count).unwrap());
            let window = unit.into_iter().fold(window, WindowCapture::unit);
            let mut follower = Follower::open(window, Start::Beginning).await;
            let changes = follower.drain().await;
            assert_eq!(keys(&changes), [1, 2, 3], "{values:?} as {of}");
            assert!(changes.is_sorted_by_key(|change| change.at));
            assert_eq!(follower.position(), position, "{of}");
            let second = changes[1].at;
            let window = shop.source().window("orders", "at").every(Duration::from_millis(1));
            let window = unit.into_iter().fold(window, WindowCapture::unit);
            let mut later = Follower::open(window, Start::Time(second)).await;
            assert_eq!(keys(&later.drain().await), [2, 3], "{of} from {second}");
        }
    }
}

#[tokio::test]
async fn a_version_of_a_row_has_the_same_id_whenever_it_comes_and_another_has_another() {
    let shop = orders(&[10, 20]).await;
    let first = Follower::open(of_orders(&shop, 100), Start::Beginning).await.drain().await;
    let again = Follower::open(of_orders(&shop, 1), Start::Beginning).await.drain().await;
    assert_eq!(first, again);
    shop.sql("update orders set item = 'coffee' where id = 1").await;
    let changed = Follower::open(of_orders(&shop, 100), Start::Beginning).await.drain().await;
    assert_ne!(changed[0].id, first[0].id, "its moment is the same, what is in it is not");
    assert_eq!(changed[1].id, first[1].id);
    assert!(first.iter().all(|change| i64::try_from(change.id).is_ok()), "it fits into SQL");
}

#[tokio::test]
async fn updated_rows_come_again_and_rows_without_a_moment_never() {
    let shop = orders(&[10, 20]).await;
    shop.sql("insert into orders values (3, 'water', null), (4, 'ink', 'infinity')").await;
    let mut follower = Follower::open(of_orders(&shop, 100), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1, 2]);
    shop.sql("update orders set updated_at = to_timestamp(30), item = 'x' where id = 1").await;
    shop.sql("update orders set updated_at = to_timestamp(31) where id = 3").await;
    assert_eq!(keys(&follower.drain().await), [1, 3]);
}

#[tokio::test]
async fn columns_that_are_added_come_with_the_next_row() {
    let shop = orders(&[10]).await;
    let mut follower = Follower::open(of_orders(&shop, 100), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    shop.sql("alter table orders add price numeric, drop item").await;
    shop.sql("insert into orders values (2, to_timestamp(20), 1.50)").await;
    let changes = follower.drain().await;
    let json = changes[0].after.as_ref().unwrap().to_json().to_string();
    assert!(json.contains(r#""price":"1.50""#) && !json.contains("item"), "{json}");
    let fresh = Follower::open(of_orders(&shop, 100), Start::Beginning).await.drain().await;
    assert_eq!(fresh[1].id, changes[0].id, "a process that began later gives the same id");
}

#[tokio::test]
async fn a_feed_can_begin_at_a_time_or_now() {
    let shop = orders(&[10, 20, 20, 30]).await;
    let at = |second: i64| Start::Time(Timestamp::from_second(second).unwrap());
    for (second, expected) in [(0, vec![1, 2, 3, 4]), (20, vec![2, 3, 4]), (21, vec![4]), (31, vec![])] {
        let mut follower = Follower::open(of_orders(&shop, 1), at(second)).await;
        assert_eq!(keys(&follower.drain().await), expected, "{second}");
    }
    let mut follower = Follower::open(of_orders(&shop, 1), Start::Now).await;
    assert!(follower.drain().await.is_empty());
    shop.sql("insert into orders values (5, 'tea', now())").await;
    assert_eq!(keys(&follower.drain_all().await), [5]);
}

#[tokio::test]
async fn a_query_is_followed_like_a_table_and_its_names_mean_what_they_mean_to_the_role() {
    let shop = orders(&[10, 20, 30]).await;
    let query = "select o.id, upper(item) as item, updated_at::timestamp as at from orders o where id <> 2 -- all but one";
    let window = shop.source().window_of_query(query, "at").key(vec!["id".to_owned()]);
    let changes =
        Follower::open(window.every(Duration::from_millis(1)), Start::Beginning).await.drain().await;
    assert_eq!(keys(&changes), [1, 3]);
    assert_eq!(
        changes[0].after.as_ref().unwrap().to_json().to_string(),
        r#"{"id":1,"item":"TEA","at":"1970-01-01T00:00:10Z"}"#
    );
}

#[tokio::test]
async fn views_and_partitioned_tables_are_followed_too() {
    let shop = Shop::with(
        "create schema lager; create table lager.\"Stock\" (shop text, item uuid, n numeric, at timestamptz, primary key (shop, item))
             partition by list (shop);
         create table lager.a partition of lager.\"Stock\" for values in ('a');
         create table lager.rest partition of lager.\"Stock\" default;
         insert into lager.\"Stock\" select s, gen_random_uuid(), 1.50, to_timestamp(7) from unnest(array['a', 'B', 'ä''\"']) s, generate_series(1, 5);
         create view v as select * from lager.\"Stock\" where n > 1",
    )
    .await;
    let three = NonZeroUsize::new(2).unwrap();
    let window =
        shop.source().window("lager.\"Stock\"", "at").excessive_count(three).every(Duration::from_millis(1));
    let changes = Follower::open(window, Start::Beginning).await.drain().await;
    let mut told: Vec<String> =
        changes.iter().map(|change| change.key.as_ref().unwrap().to_string()).collect();
    told.sort();
    told.dedup();
    assert_eq!((changes.len(), told.len()), (15, 15));
    let key = vec!["shop".to_owned(), "item".to_owned()];
    let view =
        shop.source().window("v", "at").key(key).excessive_count(three).every(Duration::from_millis(1));
    assert_eq!(Follower::open(view, Start::Beginning).await.drain().await.len(), 15);
}

#[tokio::test]
async fn stale_rows_are_dropped_and_counted_and_a_lost_tracker_begins_with_what_is_not_stale() {
    let shop = orders(&[]).await;
    shop.sql("insert into orders select i, 'old', to_timestamp(1000 + i) from generate_series(1, 500) i")
        .await;
    shop.sql("insert into orders values (1000, 'new', now() - interval '1 minute')").await;
    let window = || of_orders(&shop, 7).stale_age(Age::Of(Duration::from_secs(3600)));
    let tracker = Position::text("1970-01-01T00:18:20Z [100]");
    let mut follower = Follower::at(window(), &tracker);
    assert_eq!(keys(&follower.drain().await), [1000]);
    assert!(follower.position().ends_with(" [1000] dropped=400"), "{}", follower.position());
    assert!(follower.drain().await.is_empty());
    assert!(follower.position().ends_with(" dropped=400"), "counted once: {}", follower.position());
    let mut lost = Follower::open(window(), Start::Beginning).await;
    assert_eq!(keys(&lost.drain().await), [1000]);
    assert!(!lost.position().contains("dropped"), "{}", lost.position());
    let mut everything = Follower::open(of_orders(&shop, 1000), Start::Beginning).await;
    assert_eq!(everything.drain().await.len(), 501);
}

#[tokio::test]
async fn partitions_share_the_rows_by_their_keys() {
    let shop = orders(&(0..200).map(|n| n / 7).collect::<Vec<_>>()).await;
    let mut follower = Follower::open(of_orders(&shop, 9).partitions(4), Start::Beginning).await;
    // One of them is far ahead of the others.
    follower.cursors[2] =
        Cursor { partition: Partition(2), after: Position::text("1970-01-01T00:00:20Z [141]") };
    let lag: Vec<u64> = follower
        .window
        .lag(&follower.cursors)
        .await
        .unwrap()
        .iter()
        .map(|lag| lag.changes.unwrap())
        .collect();
    let mut changes = follower.drain().await;
    let mut passes = 0;
    while follower.cursors.iter().any(|cursor| cursor.after != follower.cursors[0].after) {
        changes.extend(follower.drain().await);
        passes += 1;
        assert!(passes < 100, "they never meet");
    }
    let mut seen = keys(&changes);
    seen.sort_unstable();
    let skipped: Vec<i64> = (1..=141).filter(|key| !seen.contains(key)).collect();
    assert!(!skipped.is_empty() && seen.is_sorted_by(|one, next| one < next), "none twice");
    assert_eq!(seen.len() + skipped.len(), 200);
    assert_eq!(lag.iter().sum::<u64>(), seen.len() as u64, "as the lag of each partition said");
}

#[tokio::test]
async fn lag_counts_what_is_left_and_how_old_it_is() {
    let shop = orders(&[10, 20]).await;
    shop.sql("update orders set updated_at = now() - interval '100 s' where id = 2").await;
    let follower = Follower::open(of_orders(&shop, 100), Start::Beginning).await;
    let lag = follower.window.lag(&follower.cursors).await.unwrap()[0];
    assert_eq!(lag.changes, Some(2));
    let at_first = Cursor { partition: Partition(0), after: Position::text("1970-01-01T00:00:10Z [1]") };
    let lag = follower.window.lag(&[at_first]).await.unwrap()[0];
    assert_eq!(lag.changes, Some(1));
    assert!((99.0..110.0).contains(&lag.seconds.unwrap()), "{lag:?}");
}

async fn advised(window: &WindowCapture) -> String {
    let advice = window.advice().await.unwrap();
    advice.iter().map(|advice| format!("{} → {}\n", advice.what, advice.remedy)).collect()
}

#[tokio::test]
async fn a_missing_index_is_named_and_the_one_that_was_named_is_used() {
    let shop = orders(&[10]).await;
    let window = of_orders(&shop, 10);
    assert_eq!(advised(&window).await, "");
    shop.sql("drop index orders_updated_at_id_idx").await;
    let advice = advised(&window).await;
    assert!(advice.contains("every look at \"orders\""), "{advice}");
    let index = advice.split("→ ").nth(1).unwrap().trim();
    assert_eq!(index, r#"create index concurrently on "public"."orders" ("updated_at", "id")"#);
    shop.sql(index).await;
    assert_eq!(advised(&window).await, "");
    shop.sql("drop index orders_updated_at_id_idx; create index on orders (updated_at)").await;
    assert_eq!(advised(&window).await, "", "also one on the moment alone");
}

#[tokio::test]
async fn what_is_no_window_is_refused_with_a_sentence() {
    let shop = orders(&[10]).await;
    shop.sql("create table heap (id bigint, at timestamptz, n float, t text, j json)").await;
    let refused = async |window: WindowCapture, words: &[&str]| {
        let said = match Follower::try_open(window, Start::Beginning).await {
            Err(error) => error.to_string(),
            Ok(mut follower) => follower.try_read().await.unwrap_err().to_string(),
        };
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let source = shop.source();
    let key = |name: &str| vec![name.to_owned()];
    refused(source.window("order", "updated_at"), &["no table", "public.orders"]).await;
    refused(source.window("orders", "update_at"), &["no column \"update_at\"", "\"updated_at\""]).await;
    refused(source.window("heap", "at"), &["no primary key", "`key`"]).await;
    refused(source.window("heap", "id").key(key("id")), &["type int8", "changed_at_unit"]).await;
    refused(source.window("heap", "n").key(key("id")).unit(Unit::Seconds), &["float8", "`query`"]).await;
    refused(source.window("heap", "at").key(key("id")).unit(Unit::Seconds), &["remove changed_at_unit"])
        .await;
    refused(source.window("heap", "at").key(key("j")), &["cannot read", "operator"]).await;
    refused(source.window_of_query("select nothing", "at").key(key("id")), &["nothing", "`query`"]).await;
    shop.sql("insert into heap values (1, to_timestamp(1), 1, 'soon')").await;
    refused(source.window("heap", "t").key(key("id")), &["is soon", "YYYY-MM-DD"]).await;
    shop.sql("update heap set t = '2026-01-01 08:00:00+02'").await;
    refused(source.window("heap", "t").key(key("id")), &["UTC", "t::timestamptz"]).await;
    shop.sql("update heap set at = '-infinity'").await;
    refused(source.window("heap", "at").key(key("id")), &["beyond the calendar"]).await;
}

#[tokio::test]
async fn rows_that_cannot_be_told_apart_are_refused_also_at_the_end_of_a_page() {
    for (rows, word) in [("(1), (1)", "two rows"), ("(1), (null)", "NULL in their key")] {
        for page in [1, 2] {
            let shop =
                Shop::with("create table heap (id bigint, at timestamptz default to_timestamp(1))").await;
            shop.sql(&format!("insert into heap (id) values {rows}")).await;
            let window = shop.source().window("heap", "at").key(vec!["id".to_owned()]);
            let window = window.excessive_count(NonZeroUsize::new(page).unwrap());
            let mut follower = Follower::open(window, Start::Beginning).await;
            let mut said = String::new();
            for _ in 0..2 {
                if let Err(error) = follower.try_read().await {
                    said = error.to_string();
                }
            }
            assert!(said.contains(word), "{rows} by {page}: {said:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_written_and_a_query_cannot_write_either() {
    let shop = orders(&[10]).await;
    shop.sql("create function f() returns int language sql as 'delete from orders returning 1'").await;
    let window = shop.source().window_of_query("select o.*, f() from orders o", "updated_at");
    let window = window.key(vec!["id".to_owned()]);
    let mut follower = Follower::open(window, Start::Beginning).await;
    let said = follower.try_read().await.unwrap_err().to_string();
    assert!(said.contains("read-only"), "{said}");
    assert_eq!(shop.number("select count(*) from orders").await, 1);
    assert_eq!(shop.number("select count(*) from pg_namespace where nspname = 'seriatim'").await, 0);
}

#[tokio::test]
async fn the_clock_is_the_servers() {
    let shop = orders(&[]).await;
    let now = shop.source().clock().now().await.unwrap().as_second();
    let server = shop.number("select extract(epoch from now())::bigint").await;
    assert!((now - server).abs() < 60);
}

#[tokio::test]
async fn values_are_those_that_a_log_has() {
    let shop = Shop::with(
        "create type mood as enum ('sad', 'glad'); create domain price as numeric(9, 2);
         create table orders (id numeric primary key, a int2, b int4, c int8, d float4, e float8, f text, g varchar(9), h char(5), i bool,
             j bytea, k json, l jsonb, m uuid, n date, o time, p timestamp, q timestamptz, r interval, s int[], t mood, u price, v int4range,
             w oid, updated_at timestamptz);
         insert into orders values (1.50, 1, 2, -9223372036854775808, 1.1, 1e300, E'a\"\\n', 'ä', 'x', true, '\\x00ff', '{\"a\": 1}', '[1]',
             '00000000-0000-0000-0000-000000000001', '2026-11-15', '08:00', '2026-11-15 08:00:00.123456', '2026-11-15 08:00:00+02', '1 day',
             '{1,2}', 'glad', 1.5, '[1,5)', 26, to_timestamp(1)),
             (2, null, null, null, 'NaN', '-Infinity', '', null, null, false, '', null, null, null, 'infinity', null, 'infinity', '-infinity',
             null, '{}', 'sad', null, 'empty', null, to_timestamp(2))",
    )
    .await;
    let json = |changes: Vec<seriatim::Change>| -> Vec<String> {
        changes.iter().map(|change| format!("{} {:?}", change.key.as_ref().unwrap(), change.after)).collect()
    };
    let mut log = crate::log_kit::Follower::open(shop.source().log("orders"), Start::Beginning).await;
    let mut logged = json(log.drain().await);
    logged.sort();
    let window = of_orders(&shop, 10);
    assert_eq!(json(Follower::open(window, Start::Beginning).await.drain().await), logged);
}
