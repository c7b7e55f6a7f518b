//! Statements that are inside of each other, and statements that change one row several times: changes come in the order in which
//! they were made.

use seriatim::FeedName;
use seriatim::source::{Feed, Install, Start};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, by_key, consumer, expected};
use crate::mirror::{Failed, Mirror, mirrors, rows_of};

#[tokio::test]
async fn two_foreign_keys_that_cascade_to_one_row_come_one_after_the_other() {
    let schema = "create table parent (id int primary key);
        create table orders (id bigint primary key, a int references parent on update cascade,
                             b int references parent on update cascade);
        insert into parent values (1), (2); insert into orders values (1, 1, 1), (2, 1, 2)";
    mirrors("two keys", schema, &["update parent set id = id + 10", "update parent set id = id - 10"]).await;
}

#[tokio::test]
async fn a_foreign_key_to_the_own_table_that_cascades_is_followed() {
    let schema = "create table orders (id bigint primary key, alt int unique, parent int references orders (alt) on update cascade);
        insert into orders values (1, 1, 1), (2, 2, 1), (3, 3, 2)";
    mirrors(
        "own table",
        schema,
        &["update orders set alt = alt + 10", "update orders set alt = 1 where id = 1"],
    )
    .await;
    let schema = "create table orders (id bigint primary key, parent bigint references orders on update cascade on delete set null);
        insert into orders values (1, 1), (2, 1), (3, 2)";
    mirrors(
        "own key",
        schema,
        &["update orders set id = id + 10", "delete from orders where id = 12", "delete from orders"],
    )
    .await;
}

#[tokio::test]
async fn a_row_that_one_cascade_deletes_and_another_one_sets_null_stays_deleted() {
    for (first, second) in [("cascade", "set null"), ("set null", "cascade")] {
        let schema = format!(
            "create table parent (id int primary key);
             create table orders (id bigint primary key, a int references parent on delete {first}, b int references parent on delete {second});
             insert into parent values (1), (2), (3); insert into orders values (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 3, 3)"
        );
        mirrors("delete", &schema, &["delete from parent where id = 1", "delete from parent"]).await;
    }
}

#[tokio::test]
async fn a_trigger_of_the_parent_that_writes_children_after_a_cascade_comes_after_it() {
    for name in ["a", "z"] {
        let schema = format!(
            "create table parent (id int primary key, n int);
             create table orders (id bigint primary key, p int references parent on update cascade, n int);
             create function touch() returns trigger language plpgsql as $$ begin
                 update orders set n = coalesce(n, 0) + 1 where p in (old.id, new.id); return null; end $$;
             create trigger {name} after update on parent for each row execute function touch();
             insert into parent values (1), (2); insert into orders values (1, 1, 0), (2, 1, 0), (3, 2, 0)"
        );
        mirrors(name, &schema, &["update parent set id = id + 10", "update parent set id = id - 10"]).await;
    }
}

const ONLY_ONE: &str = "create function only_one() returns trigger language plpgsql as $$ begin
        if new.chosen = 1 then update orders set chosen = 0 where id <> new.id and chosen = 1; end if;
        return new; end $$;
    create trigger only_one before insert or update on orders for each row execute function only_one();
    insert into orders values (1, 1, 0), (2, 0, 0), (3, 0, 0)";

#[tokio::test]
async fn a_before_trigger_that_writes_its_own_table_is_followed_also_in_statements_of_several_rows() {
    let writes = [
        "insert into orders values (4, 1, 0), (5, 1, 0), (6, 1, 0)",
        "insert into orders values (7, 1, 0), (1, 1, 9) on conflict (id) do update set other = excluded.other",
        "begin; update orders set chosen = 1 where id = 3; savepoint a; delete from orders where id = 4; rollback to a; commit",
    ];
    let plain = format!("create table orders (id bigint primary key, chosen int, other int); {ONLY_ONE}");
    mirrors("plain", &plain, &writes).await;
    let parted = format!(
        "create table orders (id bigint primary key, chosen int, other int) partition by range (id);
         create table orders_1 partition of orders for values from (0) to (4);
         create table orders_2 partition of orders for values from (4) to (1000); {ONLY_ONE}"
    );
    mirrors("partitioned", &parted, &writes).await;
}

#[tokio::test]
async fn an_after_trigger_of_a_partitioned_table_may_write_to_it() {
    let schema = "create table orders (id bigint, part int, amount int, primary key (id, part)) partition by list (part);
        create table orders_1 partition of orders for values in (1);
        create table orders_2 partition of orders for values in (2);
        create function again() returns trigger language plpgsql as $$ begin
            if pg_trigger_depth() < 4 then update orders set amount = new.amount + 1, part = 3 - part where id = new.id; end if;
            return null; end $$;
        create trigger again after insert or update on orders for each row execute function again()";
    let writes = [
        "insert into orders values (1, 1, 0), (2, 2, 0)",
        "update orders set amount = 10",
        "begin; update orders set part = 3 - part; delete from orders where id = 1; commit",
    ];
    mirrors("partitioned", schema, &writes).await;
}

#[tokio::test]
async fn a_statement_trigger_that_writes_what_an_upsert_inserted_comes_after_it() {
    let schema = "create table orders (id bigint primary key, n int);
        create function again() returns trigger language plpgsql as $$ begin
            if pg_trigger_depth() < 2 then update orders set n = n + 1; end if; return null; end $$;
        create trigger again after update on orders for each statement execute function again();
        insert into orders values (1, 0)";
    mirrors(
        "upsert",
        schema,
        &["insert into orders values (1, 5), (2, 5) on conflict (id) do update set n = 7"],
    )
    .await;
}

#[tokio::test]
async fn a_deferrable_key_that_is_there_twice_for_a_while_ends_with_the_row_that_stays() {
    let schema = "create table orders (id bigint, n int, primary key (id) deferrable initially deferred);
        insert into orders values (1, 1), (2, 2), (3, 3)";
    let writes = [
        "begin; insert into orders values (1, 10); delete from orders where id = 1 and n = 1; commit",
        "begin; insert into orders values (1, 11); update orders set n = 12 where n = 10; delete from orders where n = 12; commit",
        "begin; insert into orders values (2, 20); update orders set n = 21 where n = 20; delete from orders where n = 21; commit",
        "begin; insert into orders values (2, 20); update orders set n = 22 where n = 2; delete from orders where n = 20; commit",
        "update orders set id = 5 - id where id in (2, 3)",
        "begin; insert into orders values (7, 7); delete from orders where id = 7; insert into orders values (7, 8); commit",
    ];
    mirrors("deferred", schema, &writes).await;
}

/// What a plain table has that says nothing of it: the feed stops, and from `watch` on all of it comes in order.
#[tokio::test]
async fn a_row_that_a_plain_tables_statement_changes_twice_stops_the_feed_and_is_followed_from_then_on() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, n int); insert into orders values (1, 0), (2, 0);
         create function again(bigint) returns bigint language plpgsql as $$ begin
             update orders set n = 1 - n where id = $1; return $1; end $$",
    )
    .await;
    let mut follower = shop.follow(Start::Beginning).await;
    let mut mirror = Mirror::default();
    // Functions that write other rows, and statements that change each row once, are no reason to stop.
    for write in [
        "insert into orders values (3, 5) returning again(1)",
        "insert into orders values (3, 6), (4, 6) on conflict (id) do update set n = 7",
        "begin; insert into orders values (5, 0); update orders set n = 1 where id = 5; savepoint a; select again(5); rollback to a;
         update orders set n = 2 where id = 5; delete from orders where id = 5; commit",
        "with gone as (delete from orders where id = 4 returning *) insert into orders select id + 5, n from gone",
        "select again(1), again(1)",
    ] {
        shop.sql(write).await;
        mirror.follow(&mut follower).await.unwrap_or_else(|failed| panic!("{failed:?} after {write}"));
        assert_eq!(mirror.rows(), rows_of(&shop, "orders").await, "{write}");
    }
    shop.sql("update orders set n = 1 - n where id = 1 returning again(id)").await;
    let Err(Failed::Stopped(refused)) = mirror.follow(&mut follower).await else { panic!("it went on") };
    assert!(refused.to_string().contains("more than once"), "{refused}");
    mirror.begin_anew(&mut follower).await;
    for write in [
        "update orders set n = 1 - n where id = 1 returning again(id)",
        "insert into orders values (20, 5) returning again(id)",
        "with gone as (delete from orders where id = 3 returning *) insert into orders select id, n + 1 from gone",
    ] {
        shop.sql(write).await;
        mirror.follow(&mut follower).await.unwrap_or_else(|failed| panic!("{failed:?} after {write}"));
        assert_eq!(mirror.rows(), rows_of(&shop, "orders").await, "{write}");
    }
}

#[tokio::test]
async fn a_cascade_that_is_added_later_is_noticed_or_stops_the_feed() {
    let shop = Shop::with(
        "create table parent (id int primary key); insert into parent values (1);
         create table orders (id bigint primary key, a int, b int); insert into orders values (1, 1, 1)",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql(
        "alter table orders add foreign key (a) references parent on update cascade;
         alter table orders add foreign key (b) references parent on update cascade; update parent set id = 2",
    )
    .await;
    let refused = Mirror::default().follow(&mut follower).await;
    assert!(matches!(refused, Err(Failed::Stopped(_))), "{refused:?}");
}

#[tokio::test]
async fn a_truncated_partition_is_a_delete_of_each_of_its_rows() {
    let schema = "create table orders (id bigint primary key, n int) partition by range (id);
        create table orders_1 partition of orders for values from (0) to (10);
        create table orders_2 (n int, id bigint not null);
        alter table orders attach partition orders_2 for values from (10) to (20);
        insert into orders select g, g from generate_series(1, 19) g";
    let writes = [
        "truncate orders_2",
        "begin; insert into orders values (10, 1); update orders set n = 7 where id < 3; truncate orders_1; insert into orders values (1, 1); commit",
        "create table orders_3 partition of orders for values from (20) to (30); insert into orders values (20, 1)",
        "truncate orders_3",
        "insert into orders values (25, 1); truncate orders; insert into orders values (3, 3)",
    ];
    mirrors("partition", schema, &writes).await;
}

#[tokio::test]
async fn triggers_that_were_disabled_for_a_while_stop_the_feed() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1"])]));
    shop.sql(
        "begin; alter table orders disable trigger all; insert into orders values (2, 2);
         alter table orders enable trigger all; commit",
    )
    .await;
    let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("disabled") && refused.contains("watch orders"), "{refused}");
    // Another host, and a check, find out too.
    let another = shop.source().journal("orders").partitions(4);
    let refused = another.open(&consumer("orders"), &Start::Now).await.unwrap_err().to_string();
    assert!(refused.contains("disabled"), "{refused}");
    assert!(another.check().await.unwrap_err().to_string().contains("disabled"));
    follower.capture.install(&follower.consumer, &Start::Now).await.unwrap();
    let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("rewind orders --to beginning"), "{refused}");
    Mirror::default().begin_anew(&mut follower).await;
    shop.sql("insert into orders values (3, 3)").await;
    assert_eq!(follower.all().await.len(), 3);
}

#[tokio::test]
async fn a_partitions_triggers_that_were_disabled_for_a_while_stop_the_feed() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, n int) partition by range (id);
         create table orders_1 partition of orders for values from (0) to (10)",
    )
    .await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("create table orders_2 partition of orders for values from (10) to (20); insert into orders values (11, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    shop.sql("begin; alter table orders_1 disable trigger all; insert into orders values (2, 2); alter table orders_1 enable trigger all; commit").await;
    let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("disabled"), "{refused}");
}

#[tokio::test]
async fn a_table_that_a_crash_would_empty_is_not_watched() {
    let shop = Shop::with("create unlogged table orders (id bigint primary key, amount int)").await;
    for capture in [shop.source().journal("orders"), shop.source().log("orders")] {
        let capture = capture.named(FeedName::new("orders").unwrap());
        let refused = Follower::try_open(capture, Start::Now).await.err().unwrap().to_string();
        assert!(refused.contains("is unlogged") && refused.contains("set logged"), "{refused}");
    }
    shop.sql("alter table orders set logged").await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    assert_eq!(follower.all().await.len(), 1);
    shop.sql("alter table orders set unlogged").await;
    let refused = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(refused.contains("is unlogged"), "{refused}");
}
