//! A JSON column that holds the document `null` is not one that holds nothing.

use std::num::NonZeroUsize;
use std::time::Duration;

use seriatim::Value;
use seriatim::change::Change;
use seriatim::handler::Handler;
use seriatim::source::Start;
use seriatim_postgres::{Database, SqlEffect};

use crate::journal_kit::{Follower, Shop};
use crate::log_kit;
use crate::support::{Place, context, own};
use crate::window_kit;

const SCHEMA: &str = "
    create domain doc as jsonb;
    create function accepted(jsonb) returns boolean language plpgsql as
        'begin if $1 is null then raise exception ''no document''; end if; return true; end';
    create domain never_null as doc not null check (value is not null);
    create domain always as doc check (accepted(value));
    create table docs (id int primary key, gone int, j jsonb, k json, d doc, a always default '{}', t text, updated_at timestamptz);
    alter table docs drop column gone";

/// The first has documents that are null, the second has none, the third one that is not.
const ROWS: &str = "insert into docs values
    (1, 'null', ' null ', 'null', 'null', 'null', to_timestamp(1)), (2, null, null, null, '{}', null, to_timestamp(2)),
    (3, '{\"a\":null}', '[null]', '\"null\"', '1', '', to_timestamp(3))";

const TRIGGER: &str =
    "create function nothing() returns trigger language plpgsql as 'begin return null; end';
    create trigger theirs after insert on docs for each row execute function nothing()";

const PARTS: &str = "create table docs (id int primary key, j jsonb, k json, d jsonb, a jsonb, t text, updated_at timestamptz)
    partition by range (id); create table docs_1 (t text, id int not null, a jsonb, d jsonb, k json, j jsonb, updated_at timestamptz);
    alter table docs attach partition docs_1 for values from (0) to (100)";

/// What the documents of a row are.
fn documents(row: Option<&seriatim::Row>) -> Vec<String> {
    let row = row.unwrap();
    let shown = |name: &str| match row.get(name).unwrap() {
        Value::Null => "-".to_owned(),
        Value::Json(text) => text.to_string(),
        other => format!("{other:?}"),
    };
    ["j", "k", "d", "a"].map(shown).to_vec()
}

/// What `ROWS` are, by their keys.
fn expected(id: i64) -> [&'static str; 4] {
    match id {
        1 => ["null"; 4],
        2 => ["-", "-", "-", "{}"],
        _ => [r#"{"a": null}"#, "[null]", r#""null""#, "1"],
    }
}

fn id(change: &Change) -> i64 {
    let json: serde_json::Value = serde_json::from_str(&change.to_json()).unwrap();
    json["key"]["id"].as_i64().unwrap()
}

#[tokio::test]
async fn a_journal_tells_a_null_document_from_none() {
    let never_null = SCHEMA.replace("a always default", "a never_null default");
    for schema in [SCHEMA.to_owned(), never_null, format!("{SCHEMA};{TRIGGER}"), PARTS.to_owned()] {
        let shop = Shop::with(&schema).await;
        let mut follower = Follower::open(shop.source().journal("docs").partitions(4), Start::Now).await;
        shop.sql(&format!("{ROWS}; update docs set t = t; update docs set id = id + 10; delete from docs"))
            .await;
        let changes = follower.all().await;
        assert_eq!(changes.len(), 15);
        for change in &changes {
            for row in change.before.iter().chain(&change.after) {
                assert_eq!(documents(Some(row)), expected(id(change) % 10), "{change:?}");
                assert_eq!(row.columns().len(), 7, "nothing else is delivered");
            }
        }
        let json = changes.iter().find(|change| id(change) == 1).unwrap().to_json();
        assert!(json.contains(r#""a":null,"#) && !json.contains(r#""":"#), "{json}");
    }
}

#[tokio::test]
async fn a_truncated_partition_tells_a_null_document_from_none() {
    let shop = Shop::with(PARTS).await;
    shop.sql(ROWS).await;
    let mut follower = Follower::open(shop.source().journal("docs").partitions(1), Start::Now).await;
    shop.sql("truncate docs_1").await;
    let changes = follower.all().await;
    assert_eq!(changes.len(), 3);
    for change in changes {
        assert_eq!(documents(change.before.as_ref()), expected(id(&change)), "{change:?}");
    }
}

#[tokio::test]
async fn existing_rows_logs_and_windows_tell_a_null_document_from_none() {
    let shop = log_kit::Shop::with(SCHEMA).await;
    shop.sql(ROWS).await;
    let source = shop.source();
    let mut changes =
        Follower::open(source.journal("docs").partitions(4), Start::Beginning).await.all().await;
    let log = source.log("docs").named(seriatim::FeedName::new("log").unwrap()).partitions(4);
    changes.extend(log_kit::Follower::open(log, Start::Beginning).await.drain().await);
    let window = source.window("docs", "updated_at").named(seriatim::FeedName::new("window").unwrap());
    let window = window.buffer(Duration::from_millis(50)).every(Duration::from_millis(1));
    let window = window.excessive_count(NonZeroUsize::new(100).unwrap());
    changes.extend(window_kit::Follower::open(window, Start::Beginning).await.drain().await);
    assert_eq!(changes.len(), 9);
    for change in changes {
        assert_eq!(documents(change.after.as_ref()), expected(id(&change)), "{change:?}");
    }
}

#[tokio::test]
async fn a_filter_tells_a_null_document_from_none() {
    for (filter, wanted) in [
        ("j is not null", [1, 3]),
        ("d is null or t = 'null'", [1, 2]),
        ("j = 'null'::jsonb or a = '1'", [1, 3]),
    ] {
        let shop = Shop::with(SCHEMA).await;
        shop.sql(ROWS).await;
        let journal = || shop.source().journal("docs").filter(filter).partitions(1);
        let mut follower = Follower::open(journal(), Start::Beginning).await;
        let existing: Vec<i64> = follower.all().await.iter().map(id).collect();
        shop.sql("update docs set updated_at = now()").await;
        let updated: Vec<i64> = follower.all().await.iter().map(id).collect();
        shop.sql("delete from docs").await;
        let deleted: Vec<i64> = follower.all().await.iter().map(id).collect();
        assert_eq!([existing, updated, deleted], [wanted; 3].map(|ids| ids.to_vec()), "{filter}");
    }
}

#[tokio::test]
async fn sql_writes_a_null_document_as_one() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(shop.source().journal("docs").partitions(1), Start::Now).await;
    shop.sql(ROWS).await;
    shop.sql("create table copies as select id, j, k, d, a from docs limit 0").await;
    let elsewhere = Place::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    let copy = "insert into copies values (:new_id, :new_j, :new_k, :new_d, :new_a)";
    let handler = SqlEffect::new(copy, None).on(&Database::connect(shop.place.url()).unwrap());
    handler.handle(&follower.all().await, &context(&lease)).await.unwrap();
    let same = "select count(*) from docs join copies c using (id) where docs.j is not distinct from c.j
        and docs.k::jsonb is not distinct from c.k::jsonb and docs.d is not distinct from c.d and docs.a is not distinct from c.a";
    assert_eq!(shop.number(same).await, 3);
}

/// Triggers that were made before a column find it at once.
#[tokio::test]
async fn a_new_column_has_null_documents_from_its_first_row_on() {
    for trigger in ["", TRIGGER] {
        let table = "create table docs (id int primary key, n int)";
        let shop = Shop::with(&format!("{table};{trigger}")).await;
        let mut follower = Follower::open(shop.source().journal("docs").partitions(1), Start::Now).await;
        shop.sql("insert into docs values (1, 1), (2, null)").await;
        shop.sql("alter table docs add column \"j \"\"x\" jsonb; insert into docs values (3, 1, 'null'), (4, null, null)").await;
        shop.sql("alter table docs rename column \"j \"\"x\" to k; insert into docs values (5, 1, 'null')")
            .await;
        shop.sql(
            "alter table docs alter column n type jsonb using 'null'; update docs set id = id where id = 4",
        )
        .await;
        let changes = follower.all().await;
        let value = |at: usize, name: &str| changes[at].after.as_ref().unwrap().get(name).cloned();
        let null = Some(Value::Json("null".into()));
        assert_eq!((value(2, "j \"x"), value(3, "j \"x")), (null.clone(), Some(Value::Null)));
        assert_eq!((value(4, "k"), value(5, "n"), value(5, "k")), (null.clone(), null, Some(Value::Null)));
    }
}
