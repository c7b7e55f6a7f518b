//! Changes are told in the form that their columns had when they were made, whatever became of the columns since.

use seriatim::source::Start;
use seriatim::{Change, Row};

use crate::journal_kit::{Follower, LIMIT, Shop};

const THINGS: &str = "create table things (id int primary key, by bytea, tz timestamptz, ts timestamp, n numeric, i int, a int[],
                          d date, b boolean, f float8, j jsonb, t text);
                      create function thing(id int) returns void language sql as $$ insert into things values (id,
                          '\\x00ff', '2026-11-15 08:00:00.5+01', '2026-11-15 08:00:00', 1.50, 7, '{1,2}', '2026-11-15', true, 0.5,
                          '{\"a\": 1}', 'x') $$";

fn json(row: Option<&Row>) -> String {
    row.map_or_else(String::new, |row| row.to_json().to_string())
}

fn value(change: &Change, column: &str) -> String {
    change.after.as_ref().unwrap().get(column).unwrap().to_json().to_string()
}

async fn follow(shop: &Shop) -> Follower {
    Follower::open(shop.source().journal("things").partitions(1), Start::Now).await
}

#[tokio::test]
async fn a_change_keeps_its_form_when_its_columns_are_dropped_or_renamed_before_it_is_read() {
    let shop = Shop::with(THINGS).await;
    let (mut before, mut after) = (follow(&shop).await, follow(&shop).await);
    shop.sql("select thing(1)").await;
    let told = before.all().await;
    assert!(
        json(told[0].after.as_ref()).contains(r#""by":"AP8=","tz":"2026-11-15T07:00:00.5Z""#),
        "{told:?}"
    );
    shop.sql(
        "alter table things drop column by, drop column ts, drop column f, drop column j, drop column b;
         alter table things rename column tz to moment; alter table things rename column n to number;
         alter table things rename column a to list; alter table things add column more int",
    )
    .await;
    shop.sql("update things set i = 8").await;
    let changes = after.all().await;
    assert_eq!(json(changes[0].after.as_ref()), json(told[0].after.as_ref()));
    let expected = r#"{"id":1,"moment":"2026-11-15T07:00:00.5Z","number":"1.50","i":8,"list":[1,2],"d":"2026-11-15","t":"x","more":null}"#;
    assert_eq!(json(changes[1].after.as_ref()), expected);
    let mut restarted = follow(&shop).await;
    restarted.cursors = follow_from(&told);
    assert_eq!(json(restarted.all().await[0].after.as_ref()), expected, "another host knows it, too");
}

/// A cursor right after the last of these changes.
fn follow_from(changes: &[Change]) -> Vec<seriatim::source::Cursor> {
    let last = changes.last().unwrap();
    vec![seriatim::source::Cursor { partition: last.partition, after: last.position.clone() }]
}

#[tokio::test]
async fn each_change_has_the_type_that_its_column_had_when_it_was_made() {
    let retyped = [
        ("i", "numeric", "7", r#""7""#),
        ("i", "text", "7", r#""7""#),
        ("n", "int", r#""1.50""#, "2"),
        ("by", "text using encode(by, 'hex')", r#""AP8=""#, r#""00ff""#),
        ("tz", "text", r#""2026-11-15T07:00:00.5Z""#, r#""2026-11-15 07:00:00.5+00""#),
        ("ts", "text", r#""2026-11-15T08:00:00Z""#, r#""2026-11-15 08:00:00""#),
        ("a", "text", "[1,2]", r#""{1,2}""#),
        ("t", r"bytea using '\xff'", r#""x""#, r#""/w==""#),
    ];
    for ticks in [true, false] {
        for (column, to, old, new) in retyped {
            let shop = Shop::with(THINGS).await;
            let mut follower = follow(&shop).await;
            shop.sql("select thing(1); set timezone = 'UTC'").await;
            if ticks {
                shop.sql("select seriatim.tick()").await;
            }
            shop.sql(&format!("alter table things alter column {column} type {to}")).await;
            shop.sql("update things set d = d").await;
            let mut later = follow(&shop).await;
            later.cursors = follower.cursors.clone();
            for changes in [follower.all().await, later.all().await] {
                assert_eq!(value(&changes[0], column), old, "{column} before it is {to}, ticks: {ticks}");
                assert_eq!(value(&changes[1], column), new, "{column} after it is {to}, ticks: {ticks}");
            }
        }
    }
}

#[tokio::test]
async fn the_first_change_under_a_new_type_has_its_form_while_the_host_runs() {
    let shop = Shop::with(THINGS).await;
    let mut follower = follow(&shop).await;
    shop.sql("select thing(1)").await;
    assert_eq!(value(&follower.all().await[0], "i"), "7");
    shop.sql("alter table things alter column i type numeric").await;
    shop.sql("update things set d = d").await;
    shop.sql("select seriatim.tick()").await;
    let (changes, _) = follower.read(LIMIT).await;
    assert_eq!(value(&changes[0], "i"), r#""7""#);
    shop.sql("alter table things alter column t type bytea using t::bytea").await;
    shop.sql("alter table things alter column i type text").await;
    shop.sql("update things set d = d").await;
    shop.sql("select seriatim.tick()").await;
    let (changes, _) = follower.read(LIMIT).await;
    assert_eq!(
        (value(&changes[0], "t"), value(&changes[0], "i")),
        (r#""eA==""#.to_owned(), r#""7""#.to_owned())
    );
}
