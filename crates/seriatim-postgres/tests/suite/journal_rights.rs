//! What the triggers of a journal let writers do: nothing but write.

use seriatim::source::{Feed, Start};

use crate::journal_kit::{ORDERS, Shop, by_key, expected, run};

/// A role of the test's own that may write to `orders`, make objects in a schema of its own, and use Seriatim's schema.
async fn stranger(shop: &Shop) -> String {
    let database: String =
        shop.writer.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    let role = format!("stranger_{database}");
    shop.sql(&format!(
        "create role {role}; grant select, insert, update, delete on orders to {role}; grant usage on schema seriatim to {role};
         create schema {role} authorization {role}; create table seen_by (role text); grant insert on seen_by to public"
    ))
    .await;
    role
}

/// An operator that is found first in the writer's path, and notes whose rights it runs with.
async fn trap(shop: &Shop, role: &str) {
    shop.sql(&format!(
        "set role {role};
         create function {role}.equal(text, text) returns boolean language plpgsql as $$ begin
             insert into public.seen_by values (current_user); return $1 operator(pg_catalog.=) $2; end $$;
         create operator {role}.= (leftarg = text, rightarg = text, function = {role}.equal);
         create function {role}.equal(name, name) returns boolean language plpgsql as $$ begin
             insert into public.seen_by values (current_user); return $1 operator(pg_catalog.=) $2; end $$;
         create operator {role}.= (leftarg = name, rightarg = name, function = {role}.equal);
         create domain pg_temp.regclass as oid check ({role}.equal(current_user::text, 'x') or true);
         set search_path = {role}, public, pg_catalog"
    ))
    .await;
}

#[tokio::test]
async fn a_writer_runs_nothing_with_the_rights_of_the_triggers() {
    for more in [
        "",
        // Where users' triggers nest, an insert is enough.
        "create function nothing() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger nothing after insert or update or delete on orders for each row execute function nothing()",
    ] {
        let shop = Shop::with(ORDERS).await;
        shop.sql(more).await;
        let mut follower = shop.follow(Start::Now).await;
        let role = stranger(&shop).await;
        trap(&shop, &role).await;
        shop.sql("insert into orders values (1, 1), (2, 2); update orders set amount = 3 where id operator(pg_catalog.=) 1").await;
        shop.sql("update orders set id = 7 where id operator(pg_catalog.=) 2; update orders set amount = 4; delete from orders").await;
        shop.sql("reset role; reset search_path").await;
        assert_eq!(shop.number("select count(*) from seen_by").await, 0, "{more}");
        assert_eq!(
            by_key(&follower.all().await),
            expected(&[
                (1, &["insert 1", "update 3", "update 4", "delete"]),
                (2, &["insert 2", "delete"]),
                (7, &["insert 2", "update 4", "delete"])
            ])
        );
    }
}

#[tokio::test]
async fn functions_of_triggers_note_no_other_table_and_are_for_nobody_else() {
    for schema in [
        ORDERS,
        "create table orders (id bigint primary key, amount int) partition by range (id);
         create table orders_1 partition of orders for values from (0) to (1000)",
    ] {
        let shop = Shop::with(schema).await;
        let mut follower = shop.follow(Start::Now).await;
        let role = stranger(&shop).await;
        let mine = format!("create table {role}.mine (id bigint primary key, amount int);");
        let triggers = shop
            .writer
            .query(
                "select pg_get_triggerdef(oid) from pg_trigger where tgrelid = 'orders'::regclass and not tgisinternal",
                &[],
            )
            .await
            .unwrap();
        assert!(triggers.len() >= 4);
        shop.sql(&format!("set role {role}; {mine} reset role")).await;
        for trigger in &triggers {
            let attach =
                trigger.get::<_, String>(0).replace(" ON public.orders ", &format!(" ON {role}.mine "));
            shop.sql(&format!("set role {role}")).await;
            let attached = shop.writer.batch_execute(&attach).await;
            shop.sql("reset role").await;
            // Those of a partitioned table have to be for everybody who makes partitions. Whoever may use them attaches them in vain.
            if schema == ORDERS {
                let refused = attached.unwrap_err();
                assert!(format!("{refused:?}").contains("permission denied for function"), "{refused:?}");
                shop.sql(&attach).await;
            } else {
                attached.unwrap();
            }
        }
        shop.sql(&format!(
            "insert into {role}.mine values (1, 1), (2, 2); update {role}.mine set amount = 5"
        ))
        .await;
        shop.sql(&format!(
            "update {role}.mine set id = id + 10; delete from {role}.mine; truncate {role}.mine"
        ))
        .await;
        assert_eq!(follower.all().await, []);
        shop.sql("insert into orders values (1, 1)").await;
        assert_eq!(by_key(&follower.all().await), expected(&[(1, &["insert 1"])]));
        follower.capture.close(&follower.consumer).await.unwrap();
    }
}

#[tokio::test]
async fn every_function_of_a_journal_has_a_path_of_its_own() {
    let shop = Shop::with(
        "create table orders (id bigint primary key, amount float8);
         create function nothing() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger nothing after insert on orders for each row execute function nothing();
         create table plain (id int primary key);
         create table parted (id bigint primary key) partition by range (id)",
    )
    .await;
    for table in ["orders", "plain", "parted"] {
        let capture = shop.source().journal(table);
        crate::journal_kit::Follower::open(capture, Start::Now).await;
    }
    let wrong = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'seriatim'::regnamespace
        and p.proname ~ '^journal_[0-9]+_' and (not 'search_path=pg_catalog, pg_temp' = any (coalesce(p.proconfig, '{}'))
            or has_function_privilege('public', p.oid, 'execute') and not exists (
                select 1 from pg_trigger g join pg_class c on c.oid = g.tgrelid where g.tgfoid = p.oid and c.relkind = 'p'))";
    let wrong: Vec<String> =
        shop.writer.query(wrong, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(wrong, Vec::<String>::new());
    // Another table of the ring is written by the same functions, made anew: they keep their rights.
    run(&shop.writer, "insert into plain select g from generate_series(1, 1000) g; select seriatim.journal_turn(2, 0::int2)").await;
    run(&shop.writer, "insert into plain values (-1)").await;
    assert_eq!(shop.number("select count(*) from seriatim.journal_2_1").await, 1);
}
