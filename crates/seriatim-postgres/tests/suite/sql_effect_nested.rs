//! SQL as an effect: arrays, composites and documents arrive as the values that they were.

use seriatim::Value;
use seriatim::handler::Handler;
use seriatim::source::Start;
use seriatim_postgres::{Database, SqlEffect};

use crate::journal_kit::{Follower, Shop};
use crate::support::{Place, change, context, own};

const SCHEMA: &str = r#"
create type mood as enum ('sad', 'it''s "fine"');
create type pair as (a int, b text);
create domain tags as text[];
create table things (
    id int primary key, i int[], t text[], g int[][], m mood[], b bytea[], z timestamptz[], n numeric[], e text[], j jsonb[],
    p pair, ps pair[], f float8[], d tags, nothing int[], doc jsonb, r int4range[]
);
create table copies (like things including all)"#;

const ROW: &str = r#"insert into things values (
    1, '{1,null,3}', array['x', 'y"z', 'a\b', '', 'NULL', null, '{c,d}', ' e '], '{{1,2},{3,4}}',
    array['sad', 'it''s "fine"']::mood[], array['\x00ff'::bytea, ''], array['2026-11-15 08:00:00.5+01'::timestamptz], '{1.50,NaN}',
    '{}', array['{"a": [1, null]}'::jsonb, '"x"', 'null', '[1,2]'], '(1,"a ""b"", (c)")', array['(1,)'::pair, '(,x)', null],
    '{0.1,Infinity,-0}', '{a,b}', null, '[1, {"a": null}]', array['[1,5)'::int4range, 'empty'])"#;

#[tokio::test]
async fn arrays_and_composites_arrive_in_columns_of_their_own_type() {
    let shop = Shop::with(SCHEMA).await;
    let mut follower = Follower::open(shop.source().journal("things").partitions(1), Start::Now).await;
    shop.sql(ROW).await;
    let changes = follower.all().await;
    let columns =
        ["id", "i", "t", "g", "m", "b", "z", "n", "e", "j", "p", "ps", "f", "d", "nothing", "doc", "r"];
    let values: Vec<String> = columns.iter().map(|column| format!(":new_{column}")).collect();
    let sql = format!("insert into copies values ({})", values.join(", "));
    let elsewhere = Place::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    let database = Database::connect(shop.place.url()).unwrap();
    SqlEffect::new(&sql, None).on(&database).handle(&changes, &context(&lease)).await.unwrap();
    for column in columns {
        let differ = format!(
            "select count(*) from things t, copies c where c.{column}::text is distinct from t.{column}::text"
        );
        assert_eq!(shop.number(&differ).await, 0, "{column}");
    }
}

#[tokio::test]
async fn a_null_document_is_no_null() {
    let place = Place::new();
    place.run("create table copies (value jsonb)").await;
    let elsewhere = Place::new();
    let (_, lease) = own(&elsewhere.store().await, "ada").await;
    let handler = SqlEffect::new("insert into copies values (:new_amount)", None)
        .on(&Database::connect(place.url()).unwrap());
    let changes = [change(1, 1, Value::Json("null".into())), change(2, 2, Value::Null)];
    handler.handle(&changes, &context(&lease)).await.unwrap();
    assert_eq!(place.number("select count(*) from copies where value = 'null'").await, 1);
    assert_eq!(place.number("select count(*) from copies where value is null").await, 1);
}
