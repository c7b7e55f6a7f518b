//! Values come as they are, whatever the writer's session is set to.

use std::sync::Arc;

use seriatim::Value;
use seriatim::source::Start;

use crate::journal_kit::{Follower, Shop, run};

pub const ALL_TYPES: &str = r#"
create type mood as enum ('happy', 'it''s "fine"');
create domain price as numeric(20, 4);
create type pair as (a int, b text);
create table everything (
    id bigint primary key, i2 smallint, i4 int, i8 bigint, n numeric, p price, f4 real, f8 double precision, b boolean,
    t text, v varchar(20), c char(4), u uuid, by bytea, d date, ti time, ts timestamp, tz timestamptz, iv interval,
    j json, jb jsonb, a int[], ta text[], m mood, pa pair, o oid, ip inet, r int4range, nothing text, "Odd ""name"" é" int
)"#;

pub const ROW: &str = r#"insert into everything values (
    1, -32768, 2147483647, -9223372036854775808, 123456789012345678901234567890.10, 1.5, 'NaN', 0.1, true,
    E'quo"te \\ back\nline ünï \U0001F600', 'v', 'ab', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\x00ff5c', '2026-11-15',
    '12:34:56.789', '2026-11-15 08:00:00.123456', '2026-11-15 08:00:00.123456+00', '1 year 2 days 03:04:05',
    '{"b": 1,  "a": [1.50]}', '{"b":1}', '{1,null,3}', '{"x","y\"z"}', 'it''s "fine"', '(1,x)', 42, '10.0.0.1/8', '[1,5)', null, 7)"#;

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[tokio::test]
async fn every_type_comes_as_it_is_whatever_the_writers_settings_are() {
    let shop = Shop::with(ALL_TYPES).await;
    let mut follower = Follower::open(shop.source().journal("everything").partitions(1), Start::Now).await;
    shop.sql(ROW).await;
    let odd = shop.session().await;
    run(
        &odd,
        "set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'; set intervalstyle = 'sql_standard'",
    )
    .await;
    run(&odd, "set bytea_output = 'escape'; set extra_float_digits = -10; set search_path = ''").await;
    run(&odd, "update public.everything set i4 = i4").await;
    let changes = follower.all().await;
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].after, changes[1].before);
    assert_eq!(changes[0].after, changes[1].after);
    let row = changes[0].after.clone().unwrap();
    let get = |column: &str| row.get(column).unwrap().clone();
    let time: Value = Value::Time("2026-11-15T08:00:00.123456Z".parse().unwrap());
    assert_eq!(get("i2"), Value::Integer(-32768));
    assert_eq!(get("i8"), Value::Integer(i64::MIN));
    assert_eq!(get("n"), Value::Decimal("123456789012345678901234567890.10".into()));
    assert_eq!(get("p"), Value::Decimal("1.5000".into()));
    assert!(matches!(get("f4"), Value::Real(real) if real.is_nan()));
    assert_eq!(get("f8"), Value::Real(0.1));
    assert_eq!(get("b"), Value::Bool(true));
    assert_eq!(get("t"), text("quo\"te \\ back\nline ünï 😀"));
    assert_eq!(get("c"), text("ab  "));
    assert_eq!(get("u"), text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"));
    assert_eq!(get("by"), Value::Bytes(Arc::from(*b"\x00\xff\\")));
    assert_eq!(get("d"), text("2026-11-15"));
    assert_eq!(get("ti"), text("12:34:56.789"));
    assert_eq!((get("ts"), get("tz")), (time.clone(), time));
    assert_eq!(get("iv"), text("P1Y2DT3H4M5S"));
    assert_eq!(get("j"), Value::Json(r#"{"b": 1,  "a": [1.50]}"#.into()));
    assert_eq!(get("a"), Value::Json("[1,null,3]".into()));
    assert_eq!(get("ta"), Value::Json(r#"["x","y\"z"]"#.into()));
    assert_eq!(get("m"), text("it's \"fine\""));
    assert_eq!(get("pa"), Value::Json(r#"{"a":1,"b":"x"}"#.into()));
    assert_eq!(get("o"), Value::Integer(42));
    assert_eq!(get("ip"), text("10.0.0.1/8"));
    assert_eq!(get("r"), text("[1,5)"));
    assert_eq!(get("nothing"), Value::Null);
    assert_eq!(get("Odd \"name\" é"), Value::Integer(7));
}

#[tokio::test]
async fn an_existing_row_comes_with_the_same_values_as_a_new_one() {
    let shop = Shop::with(ALL_TYPES).await;
    shop.sql(ROW).await;
    let mut follower =
        Follower::open(shop.source().journal("everything").partitions(1), Start::Beginning).await;
    shop.sql("update everything set i4 = i4").await;
    let changes = follower.all().await;
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].op.as_str(), "upsert");
    assert_eq!(changes[0].after, changes[1].before);
}

#[tokio::test]
async fn keys_of_all_kinds_keep_their_changes_together() {
    for (of, values) in [
        ("text", ["'a'", "E'it''s \\\\ \"x\"'", "''"]),
        (
            "uuid",
            [
                "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
                "'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
                "gen_random_uuid()",
            ],
        ),
        ("numeric", ["1.50", "100", "-0.001"]),
        ("timestamptz", ["'2026-11-15 08:00:00+01'", "'2026-11-15 08:00:00.5+00'", "'infinity'"]),
        ("bytea", [r"'\x00ff'", r"'\x'", r"'\x5c78'"]),
        ("double precision", ["0.1", "1e300", "'-Infinity'"]),
        ("char(5)", ["'a'", "'bc'", "'de'"]),
        ("date", ["'2026-11-15'", "'0001-01-01'", "'infinity'"]),
        ("boolean", ["true", "false", "null"]),
        ("inet", ["'10.0.0.1'", "'::1'", "'10.0.0.0/8'"]),
    ] {
        let schema = format!("create table kinds (k {of} primary key, n int)");
        let shop = Shop::with(&schema).await;
        let mut follower = Follower::open(shop.source().journal("kinds").partitions(64), Start::Now).await;
        for value in values.into_iter().filter(|value| *value != "null") {
            shop.sql(&format!("insert into kinds values ({value}, 0)")).await;
        }
        shop.sql("update kinds set n = 1").await;
        shop.sql("set timezone = 'America/New_York'; set bytea_output = 'escape'; update kinds set n = 2; delete from kinds").await;
        let changes = follower.all().await;
        let mut told = std::collections::BTreeMap::<String, Vec<_>>::new();
        for change in &changes {
            told.entry(change.key.as_ref().unwrap().to_string())
                .or_default()
                .push((change.op.as_str(), change.partition));
        }
        for (key, told) in told {
            let ops: Vec<_> = told.iter().map(|(op, _)| *op).collect();
            assert_eq!(ops, ["insert", "update", "update", "delete"], "{of} {key}");
            assert!(told.iter().all(|(_, partition)| *partition == told[0].1), "{of} {key} in one partition");
        }
    }
}

#[tokio::test]
async fn equal_decimals_are_one_object() {
    let shop = Shop::with("create table prices (k numeric primary key, n int)").await;
    let mut follower = Follower::open(shop.source().journal("prices").partitions(64), Start::Now).await;
    shop.sql(
        "insert into prices values (1.50, 0); update prices set k = 1.5; update prices set k = 1.500, n = 1",
    )
    .await;
    let changes = follower.all().await;
    let ops: Vec<_> = changes.iter().map(|change| change.op.as_str()).collect();
    assert_eq!(ops, ["insert", "update", "update"]);
    assert!(
        changes.iter().all(|change| change.key == changes[0].key && change.partition == changes[0].partition)
    );
}

#[tokio::test]
async fn a_type_that_writes_one_value_in_several_ways_is_no_key() {
    let shop = Shop::with("create table spans (k interval primary key)").await;
    let refused = Follower::try_open(shop.source().journal("spans"), Start::Now).await.err().unwrap();
    assert!(refused.to_string().contains("interval"), "{refused}");
}

/// A `json` column keeps what its writer put around a document: the rest of the row has nothing to do with that.
#[tokio::test]
async fn white_space_around_a_document_changes_nothing_else() {
    let shop = Shop::with("create table documents (id int primary key, j json, n int)").await;
    let mut follower = Follower::open(shop.source().journal("documents").partitions(4), Start::Now).await;
    shop.sql(
        r#"insert into documents values (1, '{"a":1}', 7), (2, ' {"a":1,"n":2}', 7), (3, '{"a":1} ', 7), (4, E'\n[1]\n', 7),
                                        (5, ' "a,n"', 7), (6, ' 5 ', 7)"#,
    )
    .await;
    let mut changes = follower.all().await;
    changes.sort_by_key(|change| change.id);
    for (change, id) in changes.iter().zip(1..) {
        let row = change.after.as_ref().unwrap();
        assert_eq!(
            (row.get("id"), row.get("n")),
            (Some(&Value::Integer(id)), Some(&Value::Integer(7))),
            "{row:?}"
        );
        assert_eq!(change.key.as_ref().unwrap().to_string(), format!(r#"{{"id":{id}}}"#));
    }
    let documents: Vec<String> = changes
        .iter()
        .map(|change| change.after.as_ref().unwrap().get("j").unwrap().to_json().to_string())
        .collect();
    assert_eq!(documents, [r#"{"a":1}"#, r#"{"a":1,"n":2}"#, r#"{"a":1}"#, "[1]", r#""a,n""#, "5"]);
}
