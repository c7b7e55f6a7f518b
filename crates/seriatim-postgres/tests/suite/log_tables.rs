//! Tables of all sorts, and what happens to them while they are watched.

use seriatim::source::{Feed, Install, Start};

use crate::log_kit::{Follower, LIMIT, ORDERS, Shop, consumer, told};

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_change() {
    let shop = Shop::with("create table orders (id int primary key, j json, p point, n numeric)").await;
    shop.sql("insert into orders values (1, '{\"a\":1}', '(1,2)', 1.0), (2, null, null, 2)").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("update orders set n = n, j = j, p = p; update orders set id = id").await;
    assert!(follower.drain().await.is_empty());
    shop.sql("update orders set n = case id when 1 then 1.5 else n end").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":1}"#]);
    shop.sql("update orders set j = null where id = 2").await;
    assert!(follower.drain().await.is_empty());
}

#[tokio::test]
async fn deletes_are_told_to_those_who_asked() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 3) g").await;
    let name = |name: &str| seriatim::FeedName::new(name).unwrap();
    let log = || shop.source().log("orders").partitions(2);
    let mut with = Follower::open(log().named(name("with")).with_deletes(), Start::Beginning).await;
    let mut without = Follower::open(log().named(name("without")), Start::Beginning).await;
    with.drain().await;
    without.drain().await;
    shop.sql("delete from orders where id = 2; update orders set id = 30 where id = 3").await;
    let mut seen = told(&with.drain().await);
    seen.sort();
    assert_eq!(seen, [r#"delete {"id":2}"#, r#"delete {"id":3}"#, r#"upsert {"id":30}"#]);
    assert_eq!(told(&without.drain().await), [r#"upsert {"id":30}"#]);
    shop.sql(
        "insert into orders values (2, 5); delete from orders where id = 2; insert into orders values (2, 6)",
    )
    .await;
    assert_eq!(told(&with.drain().await), [r#"upsert {"id":2}"#], "its latest state");
    with.consumed().await;
    assert_eq!(
        shop.number("select count(*) from seriatim.log_id_orders_keys where id = 3").await,
        1,
        "one has not passed it"
    );
    without.drain().await;
    without.consumes_until(&shop, 0, "select count(*) from seriatim.log_id_orders_keys where id = 3").await;
    assert_eq!(shop.number("select count(*) from seriatim.log_id_orders_keys where id = 2").await, 1);
}

#[tokio::test]
async fn truncate_deletes_every_row() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 5) g").await;
    let mut follower = Follower::open(shop.source().log("orders").with_deletes(), Start::Beginning).await;
    follower.drain().await;
    shop.sql("begin; truncate orders; rollback").await;
    assert!(follower.drain().await.is_empty());
    shop.sql("truncate orders; insert into orders values (3, 7)").await;
    assert_eq!(follower.drain().await.len(), 5);
    assert_eq!(follower.states.into_values().collect::<Vec<_>>(), ["[3,7]"]);
}

#[tokio::test]
async fn partitioned_tables_are_seen_whole() {
    let shop = Shop::with(
        "create table orders (region text, id int, amount int, primary key (region, id)) partition by list (region);
         create table north partition of orders for values in ('n');
         create table south partition of orders for values in ('s')",
    )
    .await;
    shop.sql("insert into orders values ('n', 1, 0), ('s', 1, 0)").await;
    let mut follower = Follower::open(shop.source().log("orders").with_deletes(), Start::Beginning).await;
    follower.drain().await;
    shop.sql("insert into south values ('s', 2, 0); update north set amount = 1; update orders set region = 's' where id = 1 and region = 'n' and false").await;
    shop.sql("update orders set amount = amount").await;
    follower.drain().await;
    assert_eq!(follower.states.len(), 3);
    shop.sql(
        "delete from orders where region = 's' and id = 1; update orders set region = 's' where region = 'n'",
    )
    .await;
    follower.drain().await;
    let mut states: Vec<_> = follower.states.values().cloned().collect();
    states.sort();
    assert_eq!(
        states,
        [r#"["s",1,1]"#, r#"["s",2,0]"#],
        "a row that moved to another partition has another key"
    );
    shop.sql("create table east partition of orders for values in ('e'); insert into orders values ('e', 1, 0); truncate south").await;
    follower.drain().await;
    assert_eq!(follower.states.values().collect::<Vec<_>>(), [r#"["e",1,0]"#]);
}

#[tokio::test]
async fn odd_names_composite_keys_and_any_column_type() {
    let shop = Shop::with(
        r#"create schema "My shop"; create type "My shop".mood as enum ('sad', 'happy');
           create table "My shop"."it's ""odd""" ("the 'id'" uuid, "B" "My shop".mood, n numeric(10, 2), changed_on date,
               o json, w point, primary key ("B", "the 'id'", n))"#,
    )
    .await;
    let table = r#""My shop"."it's ""odd""""#;
    let row = |n: &str| {
        format!(
            "insert into {table} values ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'sad', {n}, '2026-11-15', '{{}}', '(1,2)')"
        )
    };
    shop.sql(&row("1.50")).await;
    let mut follower = Follower::open(shop.source().log(table).with_deletes(), Start::Beginning).await;
    shop.sql(&row("2.5")).await;
    assert_eq!(follower.drain().await.len(), 2);
    shop.sql(&format!("update {table} set o = '[]' where n = 1.5; delete from {table} where n = 2.5")).await;
    let mut seen = told(&follower.drain().await);
    seen.sort();
    let key = |op: &str, n: &str| {
        format!(r#"{op} {{"B":"sad","the 'id'":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","n":"{n}"}}"#)
    };
    assert_eq!(seen, [key("delete", "2.5"), key("upsert", "1.5")]);
}

#[tokio::test]
async fn columns_and_tables_may_be_renamed_and_columns_added_and_dropped() {
    let shop = Shop::with("create table orders (a int, id int primary key, b text)").await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Now).await;
    shop.sql("insert into orders values (1, 1, 'x')").await;
    follower.drain().await;
    shop.sql(
        "alter table orders drop column a; alter table orders add c date; update orders set c = '2026-01-01'",
    )
    .await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"id":1}"#]);
    assert_eq!(follower.states.values().collect::<Vec<_>>(), [r#"[1,"x","2026-01-01"]"#]);
    shop.sql("alter table orders rename column id to number; alter table orders rename to sales; insert into sales values (2, 'y')").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"number":2}"#]);
    shop.sql("update sales set b = 'z' where number = 2; delete from sales where number = 1").await;
    let mut seen = told(&follower.drain().await);
    seen.sort();
    assert_eq!(seen, [r#"delete {"number":1}"#, r#"upsert {"number":2}"#]);
    follower.consumed().await;
    shop.sql("alter table sales drop constraint orders_pkey; alter table sales add primary key (number); insert into sales values (3, 'y')").await;
    assert_eq!(told(&follower.drain().await), [r#"upsert {"number":3}"#]);
}

#[tokio::test]
async fn the_key_of_a_watched_table_keeps_its_type() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = Follower::open(shop.source().log("orders"), Start::Now).await;
    for refused in ["alter table orders alter id type text", "alter table orders drop column id"] {
        let error = shop.writer.batch_execute(refused).await.unwrap_err();
        assert!(error.as_db_error().unwrap().detail().unwrap().contains("log_id_orders"), "{error:?}");
    }
    shop.sql("alter table orders drop column id cascade").await;
    shop.sql("insert into orders values (1)").await;
    let error = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(
        error.contains("key column") || error.contains("primary key"),
        "writers go on, readers are told: {error}"
    );
}

#[tokio::test]
async fn missing_triggers_are_found_and_put_back() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 0), (2, 0)").await;
    let mut follower = Follower::open(shop.source().log("orders").with_deletes(), Start::Beginning).await;
    follower.drain().await;
    let before = follower.cursors.clone();
    shop.sql("alter table orders disable trigger seriatim_log_update; update orders set amount = 1; delete from orders where id = 2").await;
    let error = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("triggers"), "{error}");
    assert!(follower.capture.open(&follower.consumer, &Start::Now).await.is_err());
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    follower.cursors = before;
    let error = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("no longer retained"), "{error}");
    let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = position.clone());
    follower.drain().await;
    assert_eq!(follower.states.values().collect::<Vec<_>>(), ["[1,1]"]);
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_with_a_sentence() {
    let shop = Shop::with(
        "create table no_key (x int); create table maybe (id int unique, x int);
         create table reserved (modified_seq_id int primary key); create unlogged table unlogged (id int primary key);
         create table ok (id int primary key, code text not null unique)",
    )
    .await;
    let open = |table: &str, key: Option<&str>| {
        let mut log = shop.source().log(table);
        if let Some(key) = key {
            log = log.key(vec![key.to_owned()]);
        }
        Follower::try_open(log, Start::Now)
    };
    for (table, key, sentence) in [
        ("no_key", None, "has no primary key"),
        ("maybe", Some("id"), "does not name one row"),
        ("reserved", None, "use another unique key"),
        ("unlogged", None, r#"alter table "public"."unlogged" set logged"#),
        ("nowhere", None, "there is no table"),
    ] {
        let error = open(table, key).await.err().unwrap().to_string();
        assert!(error.contains(sentence), "{table}: {error}");
    }
    open("ok", Some("code")).await.unwrap();
    let error = open("ok", Some("id")).await.err().unwrap().to_string();
    assert!(error.contains("another key"), "{error}");
}

#[tokio::test]
async fn closing_the_last_consumer_takes_everything_out() {
    let shop = Shop::with(ORDERS).await;
    let follower = Follower::open(shop.source().log("orders"), Start::Now).await;
    assert!(follower.capture.knows(&follower.consumer).await.unwrap());
    follower.capture.close(&follower.consumer).await.unwrap();
    assert!(!follower.capture.knows(&consumer("orders")).await.unwrap());
    assert_eq!(shop.number("select count(*) from pg_trigger where tgname like 'seriatim%'").await, 0);
    assert_eq!(
        shop.number("select count(*) from pg_class where relname like 'log\\_id\\_%orders%'").await,
        0
    );
    shop.sql("drop table orders").await;
}

#[tokio::test]
async fn what_watch_prints_does_what_watch_does() {
    let shop = Shop::with(ORDERS).await;
    let log = || shop.source().log("orders").partitions(1);
    shop.sql(&log().install_sql().await.unwrap()).await;
    shop.sql("insert into orders values (1, 0)").await;
    let mut follower = Follower::open(log(), Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 1);
    let lag = follower.capture.lag(&follower.cursors).await.unwrap();
    assert_eq!((lag[0].changes, lag[0].seconds), (Some(0), Some(0.0)));
    shop.sql("insert into orders values (2, 0)").await;
    let lag = follower.capture.lag(&follower.cursors).await.unwrap();
    assert_eq!(lag[0].changes, Some(1), "also what has no number yet");
}

#[tokio::test]
async fn a_log_that_came_with_a_dump_is_found_out_and_mended() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 0)").await;
    let mut follower = Follower::open(shop.source().log("orders"), Start::Beginning).await;
    follower.drain().await;
    // As a dump leaves it in a cluster whose transactions have low numbers yet: the table is another one by its number.
    shop.sql("update seriatim.log set watched_oid = 1; update seriatim.log_pass set floor = '1000000000'")
        .await;
    shop.sql("update orders set amount = 1").await;
    let error = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("came from a dump"), "{error}");
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    assert!(follower.try_read(LIMIT).await.is_err(), "positions from before mean nothing");
    let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = position.clone());
    follower.drain().await;
    shop.sql("update orders set amount = 2").await;
    follower.drain().await;
    assert_eq!(follower.states.values().collect::<Vec<_>>(), ["[1,2]"]);
}

#[tokio::test]
async fn hosts_that_start_together_make_one_log() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 0)").await;
    let mut hosts = tokio::task::JoinSet::new();
    for host in 0..6 {
        let log =
            shop.source().log("orders").named(seriatim::FeedName::new(&format!("feed{}", host % 3)).unwrap());
        hosts.spawn(async move { Follower::try_open(log, Start::Beginning).await.map(drop) });
    }
    while let Some(opened) = hosts.join_next().await {
        opened.unwrap().unwrap();
    }
    assert_eq!(shop.number("select count(*) from seriatim.log_consumer").await, 3);
}

#[tokio::test]
async fn ordinary_roles_are_enough() {
    let shop = Shop::with(ORDERS).await;
    let (watcher, clerk) =
        (format!("watcher_{}", std::process::id()), format!("clerk_{}", std::process::id()));
    shop.sql(&format!(
        "create role {watcher} login; create role {clerk} login;
         create schema seriatim authorization {watcher};
         grant select, trigger on orders to {watcher}; grant select, insert, update, delete, truncate on orders to {clerk}"
    ))
    .await;
    let as_role = |role: &str| shop.place.url().replace("postgres@", &format!("{role}@"));
    let source = seriatim_postgres::Source::connect(&as_role(&watcher)).unwrap();
    let mut follower =
        Follower::open(source.log("orders").partitions(1).with_deletes(), Start::Beginning).await;
    let writer = crate::support::client(&as_role(&clerk)).await;
    writer.batch_execute("insert into orders values (1, 0), (2, 0); update orders set amount = 1; delete from orders where id = 1").await.unwrap();
    follower.drain().await;
    writer.batch_execute("truncate orders; insert into orders values (3, 0)").await.unwrap();
    follower.drain().await;
    follower.consumed().await;
    assert_eq!(follower.states.values().collect::<Vec<_>>(), ["[3,0]"]);
    follower.capture.close(&follower.consumer).await.unwrap();
    shop.sql(&format!("drop owned by {watcher}, {clerk}; drop role {watcher}, {clerk}")).await;
}

#[tokio::test]
async fn a_table_that_was_dropped_and_made_anew_is_watched_anew() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 9) g").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Beginning).await;
    follower.drain().await;
    for gone in [
        "drop table orders cascade",
        "select seriatim.log_drop('orders'::regclass); drop table orders cascade",
    ] {
        let before = follower.cursors.clone();
        shop.sql(gone).await;
        assert!(follower.try_read(LIMIT).await.is_err());
        shop.sql(ORDERS).await;
        shop.sql("insert into orders select g, 1 from generate_series(1, 20) g").await;
        assert!(
            follower.capture.open(&follower.consumer, &Start::Now).await.is_err(),
            "nobody noted what happened"
        );
        follower.capture.install(&follower.consumer, &Start::Beginning).await.unwrap();
        shop.sql("update orders set amount = 2").await;
        shop.number("select coalesce(seriatim.log_id_orders_update_seq(), 0)").await;
        follower.cursors = before;
        let read = follower.try_read(LIMIT).await;
        let error = read.expect_err(&format!("{gone} {:?}", follower.cursors)).to_string();
        assert!(error.contains("no longer retained"), "{error}");
        let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors[0].after = position;
        follower.drain().await;
        assert_eq!(follower.states.len(), 20);
    }
}

#[tokio::test]
async fn a_log_that_is_older_than_its_consumers_checkpoint_is_found_out() {
    let shop = Shop::with("create table orders (id int primary key, amount int)").await;
    let mut follower = Follower::open(shop.source().log("orders").partitions(1), Start::Now).await;
    shop.sql("insert into orders values (1, 1), (2, 1)").await;
    follower.drain().await;
    // The books as a backup of this moment has them, while both go on.
    let backup = shop.number("select shown from seriatim.consumer").await;
    shop.sql("update orders set amount = 2").await;
    follower.drain().await;
    shop.sql(&format!("update seriatim.consumer set shown = {backup}; insert into orders values (3, 1)"))
        .await;
    let again = shop.source().log("orders").partitions(1);
    again.open(&follower.consumer, &Start::Now).await.unwrap();
    let refused = again.read(&follower.cursors, LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("restored from a backup"), "{refused}");
    follower.try_read(LIMIT).await.map(drop).unwrap_err();
    let refused = follower.try_read(LIMIT).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("restored from a backup"), "under a reader, too: {refused}");
    let start = again.rewind(&follower.consumer, &Start::Now).await.unwrap();
    follower.cursors.iter_mut().for_each(|cursor| cursor.after = start.clone());
    shop.sql("insert into orders values (4, 1)").await;
    assert_eq!(follower.drain().await.len(), 1);
}
