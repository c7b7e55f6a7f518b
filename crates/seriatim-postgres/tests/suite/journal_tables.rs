//! Tables of all kinds, and what becomes of them while they are watched.

use seriatim::FeedName;
use seriatim::source::{Feed, Install, Start};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, by_key, consumer, expected, run, told};

#[tokio::test]
async fn a_truncate_comes_once_in_each_partition_at_its_place() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g; truncate orders; insert into orders values (1, 1)").await;
    let changes = follower.all().await;
    for partition in 0..4 {
        let ops: Vec<_> = changes
            .iter()
            .filter(|change| change.partition.0 == partition)
            .map(|change| change.op.as_str())
            .collect();
        let at = ops.iter().position(|op| *op == "truncate").unwrap();
        assert!(ops[..at].iter().all(|op| *op == "insert"), "{ops:?}");
        assert!(ops[at + 1..].iter().all(|op| *op == "insert") && ops.len() - at <= 2, "{ops:?}");
    }
    assert_eq!(changes.len(), 25);
}

#[tokio::test]
async fn a_changed_key_is_a_delete_and_an_insert_and_no_key_is_lost_on_the_way() {
    let shop = Shop::with("create table orders (id bigint, amount int, primary key (id) deferrable)").await;
    shop.sql("insert into orders select g, g from generate_series(1, 5) g").await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("update orders set id = id + 1").await;
    let told = by_key(&follower.all().await);
    let both: Vec<(i64, Vec<String>)> =
        (2..6).map(|id| (id, vec!["delete".to_owned(), format!("insert {}", id - 1)])).collect();
    let moved: Vec<(i64, Vec<&str>)> =
        both.iter().map(|(id, told)| (*id, told.iter().map(String::as_str).collect())).collect();
    let mut all: Vec<(i64, &[&str])> = moved.iter().map(|(id, told)| (*id, told.as_slice())).collect();
    all.extend([(1, &["delete"][..]), (6, &["insert 5"][..])]);
    assert_eq!(told, expected(&all));
}

#[tokio::test]
async fn names_that_need_quotes_and_keys_of_several_columns_are_watched() {
    let shop = Shop::with(
        r#"create schema "My shop"; create table "My shop"."Order ""lines""" ("Order" int, "line no." text, "r" int, "n" int,
           "image" int, "p" int, "old_rows" text default 'x', primary key ("Order", "line no."))"#,
    )
    .await;
    let table = r#""My shop"."Order ""lines""""#;
    let capture = shop.source().journal(table).partitions(4).named(FeedName::new("lines").unwrap());
    let mut follower = Follower::open(capture, Start::Beginning).await;
    shop.sql(&format!(
        "insert into {table} values (1, 'a', 1, 1, 1, 1); update {table} set r = 2; delete from {table}"
    ))
    .await;
    let changes = follower.all().await;
    let told: Vec<_> = changes.iter().map(told).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[1].starts_with(r#"update {"Order":1,"line no.":"a"} {"Order":1,"line no.":"a","r":2,"#),
        "{told:?}"
    );
}

#[tokio::test]
async fn generated_columns_and_keys_come_along() {
    let shop = Shop::with(
        "create table orders (id bigint generated always as identity primary key, a int, b int generated always as (a * 2) stored)",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders (a) values (4), (5)").await;
    let told = by_key(&follower.all().await);
    assert_eq!(told, expected(&[(1, &["insert 8"]), (2, &["insert 10"])]));
}

#[tokio::test]
async fn columns_come_and_go_and_change_their_names_while_writers_write() {
    let shop = Shop::with("create table orders (gone int, id bigint primary key, amount int)").await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (0, 1, 10)").await;
    shop.sql("alter table orders add column note text default 'n'").await;
    shop.sql("insert into orders values (0, 2, 20, 'x')").await;
    shop.sql("alter table orders drop column gone").await;
    shop.sql("update orders set amount = 11 where id = 1").await;
    shop.sql("alter table orders rename column amount to total").await;
    shop.sql("insert into orders values (3, 30, 'y')").await;
    let changes = follower.all().await;
    let images: Vec<_> =
        changes.iter().map(|change| format!("{:?}", change.after.as_ref().unwrap())).collect();
    let mut sorted = images.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            r#"{"gone":0,"id":1,"amount":10}"#,
            r#"{"gone":0,"id":2,"amount":20,"note":"x"}"#,
            r#"{"id":1,"amount":11,"note":"n"}"#,
            r#"{"id":3,"total":30,"note":"y"}"#
        ]
    );
    // The key itself gets another name: writers go on, and it is the same object.
    shop.sql("alter table orders rename column id to number").await;
    shop.sql("update orders set total = 12 where number = 1").await;
    let partition =
        changes.iter().find(|change| format!("{:?}", change.key).contains("\"id\":1")).unwrap().partition;
    let renamed = follower.all().await;
    assert_eq!(renamed.len(), 1);
    assert_eq!(
        (renamed[0].partition, renamed[0].key.as_ref().unwrap().to_string()),
        (partition, r#"{"number":1}"#.to_owned())
    );
}

#[tokio::test]
async fn a_replaced_primary_key_and_a_dropped_key_column_are_refused_with_a_sentence() {
    let shop = Shop::with("create table orders (id bigint primary key, code text not null default gen_random_uuid()::text, amount int)").await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("alter table orders drop constraint orders_pkey; alter table orders add primary key (code)")
        .await;
    shop.sql("insert into orders values (1, 'a', 1)").await;
    // The watch goes on by the columns that it began with.
    assert_eq!(follower.all().await.len(), 1);
    let refused = shop.source().journal("orders").partitions(4).open(&consumer("orders"), &Start::Now).await;
    assert!(refused.unwrap_err().to_string().contains("primary key was replaced"));
    shop.sql("alter table orders drop column id; insert into orders values ('b', 2)").await;
    let refused = follower.try_read(LIMIT).await.err().unwrap();
    assert!(refused.to_string().contains("unwatch orders"), "{refused}");
}

#[tokio::test]
async fn partitioned_tables_are_watched_through_all_their_partitions() {
    let shop = Shop::with(
        "create table orders (id bigint, day date, amount int, primary key (id, day)) partition by range (day);
         create table orders_1 partition of orders for values from ('2026-01-01') to ('2026-07-01');
         create table orders_2 (amount int, x int, day date not null, id bigint not null);
         alter table orders_2 drop column x;
         alter table orders attach partition orders_2 for values from ('2026-07-01') to ('2027-01-01')",
    )
    .await;
    let capture = shop.source().journal("orders").partitions(4).key(vec!["id".to_owned()]);
    let mut follower = Follower::open(capture, Start::Beginning).await;
    shop.sql("insert into orders values (1, '2026-01-05', 1), (2, '2026-08-05', 1)").await;
    shop.sql("update orders_2 set amount = 2").await;
    shop.sql("create table orders_3 partition of orders for values from ('2027-01-01') to ('2028-01-01')")
        .await;
    shop.sql("insert into orders_3 values (3, '2027-02-02', 3)").await;
    shop.sql("update orders set day = '2026-09-09' where id = 1; delete from orders where id = 2").await;
    let changes = follower.all().await;
    let ops = |id: i64| {
        let key = format!("{{\"id\":{id}}}");
        let of_key = changes.iter().filter(|change| change.key.as_ref().unwrap().to_string() == key);
        of_key.map(|change| change.op.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(ops(1), ["insert", "delete", "insert"]);
    assert_eq!(ops(2), ["insert", "update", "delete"]);
    assert_eq!(ops(3), ["insert"]);
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_with_what_to_do() {
    let shop = Shop::with(
        "create table orders (id bigint primary key); create view shown as select * from orders;
         create table nokey (id int); create table parent (id int primary key); create table child () inherits (parent)",
    )
    .await;
    for (table, words) in [
        ("shown", "is a view"),
        ("nokey", "no primary key"),
        ("parent", "inherits"),
        ("child", "inherits"),
        ("order", "did you mean \"public.orders\"?"),
        ("shop.orders", "did you mean \"public.orders\"?"),
        ("a.b.c", "not a table's name"),
    ] {
        let capture = shop.source().journal(table).named(FeedName::new("f").unwrap());
        let refused = Follower::try_open(capture, Start::Now).await.err().unwrap().to_string();
        assert!(refused.contains(words), "{table}: {refused}");
    }
    assert_eq!(
        shop.number("select count(*) from pg_namespace where nspname = 'seriatim'").await,
        0,
        "nothing was written"
    );
}

#[tokio::test]
async fn writes_inside_of_writes_come_in_the_order_in_which_they_were_made() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, amount int);
         create function double() returns trigger language plpgsql as $$ begin
             if new.amount < 100 then update orders set amount = amount * 10 where id = new.id; end if;
             return null; end $$;
         create trigger double after insert or update on orders for each row execute function double()",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1), (2, 20)").await;
    shop.sql("begin; savepoint a; update orders set amount = 3; rollback to a; update orders set amount = 5 where id = 1; commit").await;
    let told = by_key(&follower.all().await);
    assert_eq!(
        told,
        expected(&[
            (1, &["insert 1", "update 10", "update 100", "update 5", "update 50", "update 500"]),
            (2, &["insert 20", "update 200"])
        ])
    );
}

#[tokio::test]
async fn a_before_trigger_that_makes_room_comes_before_what_it_makes_room_for() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, amount int);
         create function replace() returns trigger language plpgsql as $$ begin
             delete from orders where id = new.id; return new; end $$;
         create function nothing() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger replace before insert on orders for each row execute function replace();
         create trigger nothing after insert on orders for each row execute function nothing()",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    shop.sql("insert into orders values (1, 2)").await;
    shop.sql("insert into orders values (2, 1) on conflict (id) do update set amount = 9").await;
    let told = by_key(&follower.all().await);
    assert_eq!(told, expected(&[(1, &["insert 1", "delete", "insert 2"]), (2, &["insert 1"])]));
}

/// A trigger that writes to the row that it is called for.
const DOUBLE: &str = "create function double() returns trigger language plpgsql as $$ begin
        if new.amount < 100 then update orders set amount = amount * 10 where id = new.id; end if;
        return null; end $$;
    create trigger double after insert or update on orders for each row execute function double()";

#[tokio::test]
async fn a_trigger_that_is_added_later_is_noticed() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql(DOUBLE).await;
    assert_eq!(follower.all().await, []);
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1", "update 10", "update 100"])]));
}

#[tokio::test]
async fn what_a_trigger_wrote_before_it_was_noticed_is_not_delivered_out_of_order() {
    for isolation in ["read committed", "repeatable read"] {
        let shop = Shop::with(ORDERS).await;
        let mut follower = shop.follow(Start::Now).await;
        let writer = shop.session().await;
        run(&writer, &format!("begin isolation level {isolation}; select 1")).await;
        // Made and fired before anybody looks at the table again. A snapshot from before does not show it, and yet it fires.
        shop.sql(DOUBLE).await;
        run(&writer, "insert into orders values (2, 50); commit").await;
        let mut refused = String::new();
        for _ in 0..100 {
            refused = follower.try_read(LIMIT).await.err().map_or(refused, |refused| refused.to_string());
        }
        assert!(refused.contains("more than once"), "{refused}");
        assert!(refused.contains("`seriatim watch orders`"), "{refused}");
        follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
        let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
        assert!(refused.contains("rewind orders --to beginning"), "{refused}");
        let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
        shop.sql("insert into orders values (3, 10)").await;
        assert_eq!(
            by_key(&follower.all().await),
            expected(&[(2, &["upsert 500"]), (3, &["insert 10", "update 100"])]),
            "from then on in order"
        );
    }
}

#[tokio::test]
async fn cascades_of_foreign_keys_are_seen() {
    let shop = Shop::with(
        "create table customers (id int primary key);
         create table orders (id bigint primary key, amount int, customer int references customers on delete cascade);
         insert into customers values (1); insert into orders values (1, 1, 1), (2, 1, 1)",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("delete from customers").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["delete"]), (2, &["delete"])]));
}

#[tokio::test]
async fn triggers_that_are_gone_are_told_and_put_back() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    shop.sql("alter table orders disable trigger user").await;
    let before = follower.cursors.clone();
    let mut refused = None;
    for _ in 0..3 {
        refused = refused.or(follower.try_read(LIMIT).await.err());
    }
    assert!(refused.unwrap().to_string().contains("triggers"), "it says that changes are not recorded");
    let start = follower.capture.open(&follower.consumer, &Start::Now).await;
    assert!(start.unwrap_err().to_string().contains("seriatim watch orders"));
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    follower.cursors = before;
    let refused = follower.try_read(LIMIT).await.err().unwrap();
    assert!(refused.to_string().contains("rewind orders --to beginning"), "{refused}");
    let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    shop.sql("insert into orders values (2, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["upsert 1"]), (2, &["insert 1"])]));
}

#[tokio::test]
async fn a_table_that_is_dropped_and_made_anew_is_told_and_watched_again() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("drop table orders").await;
    let refused = follower.capture.open(&follower.consumer, &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("is gone"), "{refused}");
    shop.sql("create table orders (amount int, id bigint primary key); insert into orders values (1, 1)")
        .await;
    let refused = follower.capture.open(&follower.consumer, &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("seriatim watch orders"), "{refused}");
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    let start = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    shop.sql("update orders set amount = 2").await;
    let told: Vec<_> = follower.all().await.iter().map(told).collect();
    assert_eq!(told, [r#"upsert {"id":1} {"amount":1,"id":1}"#, r#"update {"id":1} {"amount":2,"id":1}"#]);
}

#[tokio::test]
async fn an_ordinary_role_watches_what_it_was_granted_and_is_told_what_it_was_not() {
    let shop = Shop::with(ORDERS).await;
    let database =
        shop.writer.query_one("select current_database()::text", &[]).await.unwrap().get::<_, String>(0);
    let role = format!("watcher_{database}");
    let (writer, other) = (format!("writer_{database}"), shop.session().await);
    shop.sql(&format!(
        "create role {role} login; create role {writer} login; grant insert on orders to {writer}"
    ))
    .await;
    let url = shop.place.url().replace("postgres@", &format!("{role}@"));
    let capture = || seriatim_postgres::Source::connect(&url).unwrap().journal("orders").partitions(4);
    let refused = capture().open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("grant select, trigger on \"public\".\"orders\""), "{refused}");
    shop.sql(&format!("grant select, trigger on orders to {role}")).await;
    let refused = capture().open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("create schema"), "{refused}");
    shop.sql(&format!("create schema seriatim authorization {role}")).await;
    let mut follower = Follower::open(capture(), Start::Now).await;
    run(&other, &format!("set role {writer}; insert into orders values (1, 1)")).await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1"])]));
    assert_eq!(follower.consumed().await, 0);
    follower.capture.close(&follower.consumer).await.unwrap();
}

#[tokio::test]
async fn the_script_does_what_opening_does_and_closing_takes_it_out_again() {
    let shop = Shop::with(ORDERS).await;
    let script = shop.source().journal("orders").install_sql().await.unwrap();
    shop.sql(&script).await;
    let mut follower = shop.follow(Start::Now).await;
    assert_eq!(shop.number("select count(*) from seriatim.capture").await, 1);
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    follower.capture.close(&follower.consumer).await.unwrap();
    assert_eq!(shop.number("select count(*) from pg_trigger where not tgisinternal").await, 0);
    assert_eq!(shop.number("select count(*) from pg_class where relname like 'journal%'").await, 0);
    shop.sql("insert into orders values (2, 1)").await;
}

#[tokio::test]
async fn a_schema_of_another_name_is_used_when_the_url_says_so() {
    let shop = Shop::with(ORDERS).await;
    let source =
        seriatim_postgres::Source::connect(&shop.place.url_with("seriatim_schema=watching")).unwrap();
    let mut follower = Follower::open(source.journal("orders").partitions(4), Start::Beginning).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    follower.consumed().await;
    assert_eq!(shop.number("select count(*) from pg_namespace where nspname = 'seriatim'").await, 0);
}
