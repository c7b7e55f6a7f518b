//! Filters and chosen columns: a feed with a filter is the feed of a table that has no other rows.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seriatim::change::{Change, Op};
use seriatim::source::{Install, Limit, SourceError, Start};
use seriatim::value::Value;
use seriatim_sqlite::Capture;

use crate::capture_kit::{File, Follower, LIMIT, Replica, exact, told};
use crate::window_kit::{Follower as WindowFollower, keys, orders};

const SCHEMA: &str = "
    create table orders (id integer primary key, customer text collate nocase, amount integer, status text);
    insert into orders values (1, 'ada', 10, 'paid'), (2, 'bob', 20, 'open'), (3, 'eve', 30, 'paid');
";

fn paid(file: &File) -> Capture {
    file.source().journal("orders").filter("status = 'paid'").partitions(4)
}

#[tokio::test]
async fn a_journal_tells_of_rows_that_come_into_the_filter_and_leave_it() {
    let file = File::with(SCHEMA);
    let mut follower = Follower::open(paid(&file), Start::Beginning).await;
    assert_eq!(told(&follower.drain().await), ["upsert {\"id\":1}", "upsert {\"id\":3}"]);
    file.sql(
        "update orders set amount = 11 where id = 1;
         update orders set status = 'paid' where id = 2;
         update orders set status = 'void' where id = 3;
         update orders set amount = 31 where id = 3;
         insert into orders values (4, 'ann', 1, 'open'), (5, 'ann', 1, 'paid');
         delete from orders where id in (4, 5)",
    );
    let changes = follower.drain().await;
    assert_eq!(
        told(&changes),
        [
            "update {\"id\":1}",
            "insert {\"id\":2}",
            "delete {\"id\":3}",
            "insert {\"id\":5}",
            "delete {\"id\":5}"
        ]
    );
    let (came, left) = (&changes[1], &changes[2]);
    assert!(came.before.is_none() && came.after.is_some(), "it was not there before");
    assert_eq!(
        left.before.as_ref().unwrap().get("amount"),
        Some(&Value::Integer(30)),
        "what it was when it was there"
    );
    assert!(left.after.is_none());
}

#[tokio::test]
async fn a_log_forgets_rows_that_left_the_filter_where_it_has_deletes() {
    for deletes in [false, true] {
        let file = File::with(SCHEMA);
        let log = file.source().log("orders").filter("status = 'paid'").partitions(4);
        let log = if deletes { log.with_deletes() } else { log };
        let mut follower = Follower::open(log, Start::Now).await;
        file.sql(
            "update orders set amount = 11 where id = 1; update orders set status = 'void' where id = 3;
             delete from orders where id = 2",
        );
        let expected: &[&str] = match deletes {
            false => &["upsert {\"id\":1}"],
            true => &["upsert {\"id\":1}", "delete {\"id\":3}", "delete {\"id\":2}"],
        };
        assert_eq!(told(&follower.drain().await), expected);
    }
}

#[tokio::test]
async fn a_window_passes_over_rows_that_do_not_match() {
    let file = orders(&[10, 20, 30, 40]);
    file.sql("update orders set item = 'rum' where id in (2, 4)");
    let window = file.source().window("orders", "updated_at").unit(seriatim_sqlite::Unit::Seconds);
    let window = window.filter("item = 'rum'").columns(vec!["item".to_owned()]);
    let mut follower = WindowFollower::open(window, Start::Beginning).await;
    let changes = follower.drain().await;
    assert_eq!(keys(&changes), [2, 4]);
    let row = changes[0].after.as_ref().unwrap();
    assert_eq!(row.to_json().to_string(), r#"{"id":2,"item":"rum"}"#, "the key is always there");
}

#[tokio::test]
async fn a_filter_that_matches_nothing_lets_the_position_move_on() {
    let file = File::with(SCHEMA);
    for kind in ["journal", "log"] {
        let source = file.source();
        let capture = if kind == "journal" { source.journal("orders") } else { source.log("orders") };
        let name = seriatim::FeedName::new(kind).unwrap();
        let mut follower = Follower::open(capture.named(name).filter("0"), Start::Beginning).await;
        follower.drain().await;
        let before = follower.position().clone();
        file.sql("update orders set amount = amount + 1");
        assert!(follower.drain().await.is_empty());
        assert_ne!(*follower.position(), before, "{kind}");
        follower.consumed().await;
    }
    let file = orders(&[10, 20, 30]);
    let window =
        file.source().window("orders", "updated_at").unit(seriatim_sqlite::Unit::Seconds).filter("false");
    let mut follower = WindowFollower::open(window, Start::Beginning).await;
    let before = follower.position();
    assert!(follower.drain().await.is_empty());
    assert_ne!(follower.position(), before);
}

#[tokio::test]
async fn another_filter_goes_on_where_the_last_one_was() {
    let file = File::with(SCHEMA);
    let mut follower = Follower::open(paid(&file), Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 2);
    file.sql("update orders set amount = 0");
    let cursors = follower.cursors.clone();
    let capture = file.source().journal("orders").filter("status <> 'paid'").partitions(4);
    let mut follower = Follower::open(capture, Start::Beginning).await;
    follower.cursors = cursors.clone();
    assert_eq!(told(&follower.drain().await), ["update {\"id\":2}"]);
    let mut follower = Follower::open(file.source().journal("orders").partitions(4), Start::Beginning).await;
    follower.cursors = cursors;
    assert_eq!(follower.drain().await.len(), 3, "and none at all");
}

/// What a comparison means depends on the column: its type, and its collation.
#[tokio::test]
async fn a_filter_means_for_an_image_what_it_means_for_a_row() {
    let filters = [
        ("amount = '10'", 1),
        ("customer = 'ADA'", 1),
        ("customer in ('EVE', 'Bob')", 2),
        ("\"amount\" between 15 and 25.5", 1),
        ("status like 'p%' and amount > 10", 1),
        ("length(customer) = 3", 3),
        ("amount", 3),
        ("null", 0),
    ];
    let file = File::with(SCHEMA);
    for (index, (filter, expected)) in filters.into_iter().enumerate() {
        let rows = file.number(&format!("select count(*) from orders where {filter}"));
        assert_eq!(rows, expected, "{filter}");
        let name = seriatim::FeedName::new(&format!("f{index}")).unwrap();
        let capture = file.source().journal("orders").named(name).filter(filter);
        let mut follower = Follower::open(capture, Start::Beginning).await;
        assert_eq!(follower.drain().await.len() as i64, expected, "existing rows where {filter}");
        file.sql("update orders set amount = amount");
        assert_eq!(follower.drain().await.len() as i64, expected, "changes where {filter}");
    }
}

#[tokio::test]
async fn only_the_columns_that_were_asked_for_are_delivered_and_the_key() {
    let file = File::with(SCHEMA);
    let wanted = vec!["Amount".to_owned()];
    let capture = file.source().journal("orders").filter("status = 'paid'").columns(wanted);
    assert_eq!(capture.shape().await.unwrap().columns, ["id", "amount"]);
    let mut follower = Follower::open(capture, Start::Beginning).await;
    let json = |changes: &[Change]| changes[0].after.as_ref().unwrap().to_json().to_string();
    assert_eq!(json(&follower.drain().await), r#"{"id":1,"amount":10}"#);
    file.sql(
        "alter table orders add column note text; update orders set note = 'x', amount = 12 where id = 1",
    );
    let changes = follower.drain().await;
    assert_eq!(json(&changes), r#"{"id":1,"amount":12}"#);
    assert_eq!(changes[0].before.as_ref().unwrap().to_json().to_string(), r#"{"id":1,"amount":10}"#);
    let log = file.source().log("orders").columns(vec!["status".to_owned()]);
    let mut follower =
        Follower::open(log.named(seriatim::FeedName::new("log").unwrap()), Start::Beginning).await;
    assert_eq!(json(&follower.drain().await), r#"{"id":1,"status":"paid"}"#);
}

#[tokio::test]
async fn a_change_that_is_older_than_a_column_of_the_filter_is_let_through() {
    let file = File::with(SCHEMA);
    let mut first = Follower::open(file.source().journal("orders"), Start::Now).await;
    file.sql("update orders set amount = 1 where id = 1");
    first.drain().await;
    let before = first.cursors.clone();
    file.sql(
        "update orders set amount = 2 where id = 1; alter table orders add column region text default 'eu'",
    );
    first.drain().await;
    file.sql("update orders set amount = 3 where id = 1; update orders set region = 'us' where id = 1");
    let capture = file.source().journal("orders").filter("region = 'us'");
    let mut follower = Follower::open(capture, Start::Now).await;
    follower.cursors = before;
    assert_eq!(told(&follower.drain().await), ["update {\"id\":1}", "insert {\"id\":1}"]);
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_with_a_sentence() {
    let file = File::with(SCHEMA);
    let expected = [
        ("amuont > 1", "no such column: amuont"),
        ("amount >", "incomplete input|syntax error"),
        ("status = \"paid\"", "no such column: paid (texts are in single quotes)"),
        ("rowid > 1", "rowid is no column of its own"),
        ("1) or (1", "that closes nothing"),
        ("amount > 1; drop table orders", "semicolon"),
        ("id in (select id from orders)", "query in it"),
        ("random() > 0", "non-deterministic"),
        ("amount > ?1", "parameters prohibited"),
        ("(amount, id)", "row value misused"),
        ("count(*) > 1", "aggregate"),
        ("load_extension('x')", "unsafe use"),
        ("orders.amount > 1", "operator prohibited"),
        ("", "is empty"),
    ];
    for (filter, why) in expected {
        let capture = file.source().journal("orders").filter(filter);
        let said = capture.check().await.unwrap_err().to_string();
        assert!(said.contains("feed orders: `where` is no filter"), "{said}");
        assert!(why.split('|').any(|why| said.contains(why)), "{filter}: {said}");
        let refused = Follower::try_open(capture, Start::Beginning).await.err().unwrap();
        assert!(matches!(refused, SourceError::NeedsAttention { .. }));
        assert_eq!(refused.to_string(), said, "run says what check says");
        let window =
            file.source().window("orders", "amount").unit(seriatim_sqlite::Unit::Seconds).filter(filter);
        let said = window.check().await.unwrap_err().to_string();
        assert!(why.split('|').any(|why| said.contains(why)), "a window where {filter}: {said}");
    }
    let said = file.source().journal("orders").columns(vec!["amuont".to_owned()]).check().await.unwrap_err();
    assert!(said.to_string().contains("has no column \"amuont\"; did you mean \"amount\"?"), "{said}");
    assert_eq!(
        file.number("select count(*) from sqlite_master where name like 'seriatim%'"),
        0,
        "nothing is written"
    );
}

#[tokio::test]
async fn a_filter_that_has_no_answer_for_a_row_stops_the_feed_there_and_says_so() {
    let file = File::with("create table orders (id integer primary key, doc text)");
    let capture = file.source().journal("orders").filter("json_extract(doc, '$.a') = 1").partitions(1);
    let mut follower = Follower::open(capture, Start::Now).await;
    file.sql(r#"insert into orders values (1, '{"a":1}')"#);
    assert_eq!(follower.drain().await.len(), 1);
    let before = follower.position().clone();
    file.sql("insert into orders values (2, 'no json')");
    let said = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(
        said.contains("its `where` cannot be answered for a row of \"orders\": malformed JSON"),
        "{said}"
    );
    assert_eq!(*follower.position(), before);
}

const FILTERS: [&str; 4] = ["v > 2", "v is null or v = 1", "w = 'a'", "v > 1 and w <> 'b'"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever happens, what the changes make is the part of the table for which the filter holds.
    #[test]
    fn the_changes_make_what_the_filter_selects(
        steps in prop::collection::vec((0u8..4, 1i64..6, 0i64..5, prop::sample::select(vec!["a", "b"])), 1..40),
        filter in prop::sample::select(FILTERS.to_vec()),
        first in 0usize..20,
        rows in 1usize..5,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let file = File::with("create table t (k integer primary key, v integer, w text)");
            let apply = |(what, k, v, w): &(u8, i64, i64, &str)| file.sql(&match what {
                0 => format!("insert or replace into t values ({k}, {v}, '{w}')"),
                1 => format!("update t set v = {v} where k = {k}"),
                2 => format!("update t set v = nullif({v}, 0), w = '{w}'"),
                _ => format!("delete from t where k = {k}"),
            });
            let (early, late) = steps.split_at(first.min(steps.len()));
            early.iter().for_each(apply);
            let mut journal =
                Follower::open(file.source().journal("t").filter(filter).partitions(2), Start::Beginning).await;
            let name = seriatim::FeedName::new("log").unwrap();
            let log = file.source().log("t").named(name).filter(filter).with_deletes().partitions(2);
            let mut log = Follower::open(log, Start::Beginning).await;
            let (mut replicas, mut latest) = ([Replica::default(), Replica::default()], BTreeMap::new());
            for step in late.iter().map(Some).chain([None]) {
                let limit = if step.is_some() { Limit { rows, bytes: usize::MAX } } else { LIMIT };
                loop {
                    let (changes, caught_up) = journal.read(limit).await;
                    changes.iter().for_each(|change| replicas[change.partition.0 as usize].apply(change));
                    let (states, done) = log.read(limit).await;
                    for change in states {
                        let key = change.key.as_ref().unwrap().to_string();
                        match change.op {
                            Op::Delete => latest.remove(&key),
                            _ => latest.insert(key, exact(change.after.as_ref().unwrap())),
                        };
                    }
                    if step.is_some() || caught_up && done { break; }
                }
                step.into_iter().for_each(apply);
            }
            let rows = file.rows(&format!("select * from t where {filter}"));
            let mut expected: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
            expected.sort();
            let mut made: Vec<String> = replicas.iter().flat_map(Replica::sorted).collect();
            made.sort();
            assert_eq!(made, expected, "the journal where {filter}");
            let mut states: Vec<String> = latest.into_values().collect();
            states.sort();
            assert_eq!(states, expected, "the log where {filter}");
        });
    }
}

/// The keys that a filter lets through, and those that a `select` with the same `where` finds.
async fn let_through(file: &File, filter: &str, rows: &str) -> (Vec<String>, Vec<i64>) {
    let mut follower =
        Follower::open(file.source().journal("t").filter(filter).partitions(1), Start::Now).await;
    file.sql(&format!("insert into t values {rows}"));
    let mut found = file.writer.prepare(&format!("select id from t where {filter} order by id")).unwrap();
    let found = found.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap();
    (told(&follower.drain().await), found)
}

fn inserts(ids: &[i64]) -> Vec<String> {
    ids.iter().map(|id| format!("insert {{\"id\":{id}}}")).collect()
}

#[tokio::test]
async fn a_bad_row_is_not_asked_for_more_after_an_and_that_does_not_hold() {
    let file = File::with("create table t (id integer primary key, j text)");
    let filter = "json_valid(j) and json_extract(j, '$.a') = 1";
    let (told, found) = let_through(&file, filter, r#"(1, '{"a":1}'), (2, 'no json'), (3, '{"a":1}')"#).await;
    assert_eq!((found.as_slice(), told), ([1, 3].as_slice(), inserts(&[1, 3])));
}

#[tokio::test]
async fn outside_strict_tables_any_compares_as_numbers_do() {
    for (strict, expected) in [("", vec![1, 2]), (" strict", vec![2])] {
        let file = File::with(&format!("create table t (id integer primary key, x any){strict}"));
        let (told, found) = let_through(&file, "x = '10'", "(1, 10), (2, '10')").await;
        assert_eq!((&found, told), (&expected, inserts(&expected)), "{strict}");
    }
}

#[tokio::test]
async fn texts_compare_in_the_encoding_of_the_file() {
    for encoding in ["UTF-8", "UTF-16le"] {
        let folder = tempfile::tempdir().unwrap();
        let writer = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        writer.pragma_update(None, "encoding", encoding).unwrap();
        let file = File { folder, writer };
        file.sql("pragma journal_mode = wal; create table t (id integer primary key, s text)");
        let (told, found) = let_through(&file, "s < '\u{1f600}'", "(1, '\u{ff5e}'), (2, '!')").await;
        assert_eq!(told, inserts(&found), "{encoding}");
        assert_eq!(found.len(), if encoding == "UTF-8" { 2 } else { 1 }, "{encoding}");
    }
}
