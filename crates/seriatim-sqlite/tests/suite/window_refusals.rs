//! Windows: what cannot work is refused with a sentence, and what is slow is said.

use std::time::Duration;

use seriatim::Position;
use seriatim::source::window::Age;
use seriatim::source::{Feed, Install, Start};
use seriatim_sqlite::{Unit, WindowCapture};

use crate::capture_kit::File;
use crate::window_kit::{Follower, keys, orders};

async fn said(window: WindowCapture) -> String {
    match Follower::try_open(window, Start::Beginning).await {
        Err(error) => error.to_string(),
        Ok(mut follower) => match follower.try_read().await {
            Err(error) => error.to_string(),
            Ok((changes, _)) => panic!("it worked: {changes:?}"),
        },
    }
}

fn assert_parts(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_named_with_what_was_meant() {
    let file = orders(&[10]);
    let source = file.source();
    assert_parts(
        &said(source.window("order", "updated_at")).await,
        &["no table \"order\"", "did you mean \"orders\"?"],
    );
    let text = said(source.window("orders", "update_at").unit(Unit::Seconds)).await;
    assert_parts(&text, &["has no column \"update_at\"", "did you mean \"updated_at\"?", "`changed_at`"]);
    let text = said(source.window("orders", "updated_at").key(vec!["number".to_owned()])).await;
    assert_parts(&text, &["has no column \"number\"", "`key`", "id, item, updated_at"]);
    assert_parts(
        &said(source.window_of_query("selct 1", "at")).await,
        &["cannot run its query", "syntax error", "`query`"],
    );
    let text = said(source.window_of_query("select id, updated_at from orders", "updated_at")).await;
    assert_parts(&text, &["no primary key", "set the feed's `key`"]);
}

#[tokio::test]
async fn values_that_are_no_moments_are_named() {
    for (unit, value, parts) in [
        (None, "7", ["updated_at of the row with id 1", "is 7", "changed_at_unit"]),
        (Some(Unit::Seconds), "'2026-01-01 00:00:00'", ["id 1", "2026-01-01", "remove changed_at_unit"]),
        (None, "'2026-01-01T00:00:00+02:00'", ["id 1", "+02:00", "UTC"]),
        (None, "'yesterday'", ["id 1", "\"yesterday\"", "YYYY-MM-DD HH:MM:SS"]),
        (None, "x'00'", ["id 1", "is a blob", "YYYY-MM-DD HH:MM:SS"]),
        (Some(Unit::Seconds), "1.5", ["id 1", "is 1.5", "whole number"]),
    ] {
        let file = File::with("create table orders (id integer primary key, updated_at)");
        file.sql(&format!("insert into orders values (1, {value})"));
        let window = file.source().window("orders", "updated_at");
        let window = unit.into_iter().fold(window, WindowCapture::unit);
        assert_parts(&said(window).await, &parts);
    }
}

#[tokio::test]
async fn texts_that_do_not_sort_by_time_are_refused() {
    let file = File::with("create table orders (id integer primary key, at text)");
    file.sql("insert into orders values (1, '2026-01-01T09:00:00'), (2, '2026-01-01 10:00:00')");
    let mut follower = Follower::open(file.source().window("orders", "at"), Start::Beginning).await;
    assert_eq!(keys(&follower.read().await.0), [2], "what sorts before it does not wait");
    let said = follower.try_read().await.unwrap_err().to_string();
    assert_parts(&said, &["row with id 1", "another letter between date and time", "in one form"]);
}

#[tokio::test]
async fn a_text_of_another_form_that_sorts_before_the_place_is_told() {
    let file = File::with("create table orders (id integer primary key, at text)");
    file.sql("insert into orders values (1, '2026-01-01T09:00:00')");
    let mut follower = Follower::open(file.source().window("orders", "at"), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    file.sql("insert into orders values (2, '2026-01-01 10:00:00')");
    let said = follower.try_read().await.expect_err("the row would never come").to_string();
    assert_parts(&said, &["row with id 2", "2026-01-01 10:00:00", "in one form"]);
    file.sql("update orders set at = replace(at, ' ', 'T')");
    assert_eq!(keys(&follower.drain().await), [2], "and it comes when it is mended");
}

#[tokio::test]
async fn rows_before_one_without_a_moment_do_not_wait_for_it() {
    let good = "'2026-01-01 00:00:01'";
    for bad in ["'yesterday'", "'2026-99-01 00:00:00'", "x'00'"] {
        let file = File::with("create table orders (id integer primary key, updated_at)");
        file.sql(&format!("insert into orders values (1, {good}), (2, {good}), (3, {bad})"));
        let mut follower =
            Follower::open(file.source().window("orders", "updated_at"), Start::Beginning).await;
        assert_eq!(keys(&follower.read().await.0), [1, 2], "{bad}");
        let said = follower.try_read().await.unwrap_err().to_string();
        assert_parts(&said, &["updated_at of the row with id 3"]);
        file.sql("insert into orders values (4, '2026-01-02 00:00:00')");
        assert_eq!(keys(&follower.read().await.0), [4], "nor do those that come later and sort before it");
        assert!(follower.try_read().await.is_err());
        file.sql("update orders set updated_at = '2026-01-03 00:00:00' where id = 3");
        assert_eq!(keys(&follower.drain().await), [3]);
    }
}

#[tokio::test]
async fn keys_that_do_not_tell_rows_apart_are_refused() {
    let file = File::with("create table orders (id integer, at integer)");
    file.sql("insert into orders values (1, 10), (1, 10)");
    let window = || file.source().window("orders", "at").unit(Unit::Seconds);
    assert_parts(&said(window()).await, &["has no primary key", "`key`"]);
    assert_parts(&said(window().key(vec!["id".to_owned()])).await, &["two rows", "have the key id 1"]);
    file.sql("delete from orders; insert into orders values (null, 10)");
    assert_parts(&said(window().key(vec!["id".to_owned()])).await, &["NULL in their key"]);
}

#[tokio::test]
async fn rules_that_cannot_work_are_refused() {
    let file = orders(&[10]);
    let window = || file.source().window("orders", "updated_at").unit(Unit::Seconds);
    assert_parts(&said(window().buffer(Duration::ZERO)).await, &["longer than zero"]);
    assert_parts(
        &said(window().stale_age(Age::Of(Duration::from_secs(5)))).await,
        &["stale age must be longer than the buffer"],
    );
}

#[tokio::test]
async fn positions_of_others_are_refused() {
    let file = orders(&[10]);
    let window = file.source().window("orders", "updated_at").unit(Unit::Seconds);
    for foreign in ["17", "b:1:2:[3]", "soon [1]"] {
        let error = window.validate(&Position::text(foreign)).await.unwrap_err().to_string();
        assert_parts(&error, &["is not one of its positions"]);
    }
    for own in ["beginning", "since 2026-01-01T00:00:00Z", "10 [1]"] {
        window.validate(&Position::text(own)).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_index_is_named_by_the_statement_that_makes_it() {
    let file = File::with(
        "create table orders (id integer primary key, at integer);
         create table stock (shop text, item text, at integer, primary key (shop, item))",
    );
    let (orders, stock) = (
        || file.source().window("orders", "at").unit(Unit::Seconds),
        || file.source().window("stock", "at").unit(Unit::Seconds),
    );
    let missing = orders().advice().await.unwrap().remove(0);
    assert!(missing.what.contains("reads all its rows (SCAN"), "{missing:?}");
    assert_eq!(missing.remedy, r#"create index "orders_at" on "orders" ("at")"#);
    file.sql(&missing.remedy);
    assert_eq!(orders().advice().await.unwrap(), []);
    let missing = stock().advice().await.unwrap().remove(0);
    assert_eq!(missing.remedy, r#"create index "stock_at" on "stock" ("at", "shop", "item")"#);
    file.sql(&missing.remedy);
    assert_eq!(stock().advice().await.unwrap(), []);
    let query =
        file.source().window_of_query("select id, at + 1 as at from orders", "at").unit(Unit::Seconds);
    let missing = query.key(vec!["id".to_owned()]).advice().await.unwrap().remove(0);
    assert!(missing.remedy.contains("what the query has as at"), "{missing:?}");
}

#[tokio::test]
async fn a_page_in_the_middle_of_a_moment_is_found_by_the_index() {
    let file = orders(&[]);
    let plan =
        "explain query plan select id from orders where updated_at = 7 and (id) > (3) order by id limit 5";
    let detail = file.writer.query_row(plan, [], |row| row.get::<_, String>(3)).unwrap();
    assert!(detail.contains("updated_at=? AND rowid>?"), "{detail}");
}

#[tokio::test]
async fn nothing_is_written_to_the_file_and_its_mode_stays() {
    let file = orders(&[10]);
    file.sql("pragma journal_mode = delete");
    let schema = |file: &File| file.number("select count(*) from sqlite_master");
    let before = schema(&file);
    let window = file.source().window("orders", "updated_at").unit(Unit::Seconds);
    let mut follower = Follower::open(window, Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 1);
    drop(follower);
    assert_eq!(schema(&file), before);
    let mode: String = file.writer.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}
