//! The log without the program: SQL alone, as a migration tool and a consumer in any language would use it.

use crate::log_kit::{ORDERS, Shop};

async fn keys_after(shop: &Shop, last: i64) -> Vec<String> {
    shop.texts(&format!(
        "select format('%s %s', modified_seq_id, id) from seriatim.log_id_orders where modified_seq_id > {last} \
         order by modified_seq_id limit 100"
    ))
    .await
}

#[tokio::test]
async fn the_files_can_be_run_by_any_tool_and_run_again() {
    let shop = Shop::with(ORDERS).await;
    let init = "select seriatim.log_id_init_tables('public', 'orders'); \
                select seriatim.log_id_init_functions('public', 'orders'); \
                select seriatim.log_id_init_triggers('public', 'orders')";
    shop.init_by_sql(init).await;
    shop.sql("insert into orders values (1, 0), (2, 0)").await;
    shop.init_by_sql(init).await;
    assert_eq!(shop.number("select seriatim.log_id_orders_lag(0)").await, 2);
    assert_eq!(shop.number("select seriatim.log_id_orders_update_seq(1)").await, 1, "up to the batch size");
    assert_eq!(shop.number("select seriatim.log_id_orders_update_seq(1)").await, 1);
    assert_eq!(keys_after(&shop, 0).await, ["1 1", "2 2"]);
    assert_eq!(shop.number("select count(*) from seriatim.log_id_orders_batch(1, 10)").await, 1);
    assert_eq!(shop.number("select seriatim.log_id_orders_lag(1)").await, 1);
}

#[tokio::test]
async fn a_consumer_in_sql_alone_handles_each_change_once_and_parks_what_fails() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders select g, g from generate_series(1, 5) g").await;
    shop.init_by_sql("select seriatim.log_init('orders'); select seriatim.log_register('orders', 'mailer')")
        .await;
    shop.sql(
        "create table mailed (id bigint, deleted boolean);
         create function mail(key jsonb, deleted boolean) returns void language plpgsql as $$
         begin
             if (select amount from public.orders where id = (key->>'id')::bigint) = 3 then raise 'no such address'; end if;
             insert into public.mailed values ((key->>'id')::bigint, deleted);
         end $$",
    )
    .await;
    let process = "select seriatim.log_process('orders', 'mailer', 'mail', 2)";
    let list = "select coalesce(seriatim.log_list('orders', 3), 0)";
    while shop.number(list).await > 0 {}
    let mut last = -1;
    loop {
        let now = shop.number(process).await;
        if now == last {
            break;
        }
        last = now;
    }
    let mailed = "select id || ' ' || deleted from mailed order by 1";
    assert_eq!(shop.texts(mailed).await, ["1 false", "2 false", "4 false", "5 false"]);
    assert_eq!(
        shop.texts("select key->>'id' || ' ' || error from seriatim.log_parked").await,
        ["3 no such address"]
    );
    shop.sql("delete from orders where id = 1; update orders set amount = 33 where id = 3").await;
    shop.number("select coalesce(seriatim.log_id_orders_update_seq(), 0)").await;
    shop.number(process).await;
    assert_eq!(shop.texts(mailed).await, ["1 false", "1 true", "2 false", "3 false", "4 false", "5 false"]);
    assert_eq!(shop.number("select count(*) from seriatim.log_parked").await, 0, "handled in the end");
    shop.number(process).await;
    assert_eq!(shop.number("select count(*) from mailed").await, 6, "nothing twice");
}

#[tokio::test]
async fn the_printed_sql_makes_logs_in_any_schema() {
    let shop = Shop::with(ORDERS).await;
    let printed = seriatim_postgres::log_sql(&seriatim_postgres::Schema::new("app_log").unwrap());
    assert!(!printed.contains("seriatim."), "no other schema is named");
    for _ in 0..2 {
        shop.sql(&printed).await;
    }
    shop.sql("insert into orders values (1, 0), (2, 0)").await;
    shop.sql("select app_log.log_init('orders'); select app_log.log_register('orders', 'mailer')").await;
    assert_eq!(shop.number("select app_log.log_list('orders', 10)").await, 2);
    shop.sql("update orders set amount = 1 where id = 1; delete from orders where id = 2").await;
    shop.sql("select app_log.log_tick()").await;
    let keys = "select id || ' ' || deleted from app_log.log_id_orders where modified_seq_id > 2 order by modified_seq_id";
    assert_eq!(shop.texts(keys).await, ["1 false", "2 true"]);
    assert_eq!(shop.number("select count(*) from pg_namespace where nspname = 'seriatim'").await, 0);
}

#[tokio::test]
async fn what_is_parked_is_tried_again_or_dropped_with_a_reason_by_sql() {
    let shop = Shop::with(ORDERS).await;
    shop.init_by_sql(
        "select seriatim.log_init('orders'); select seriatim.log_register('orders', 'mailer', false)",
    )
    .await;
    shop.sql(
        "create table mailed (key jsonb); create table away (since date); insert into away values (now());
         create function mail(key jsonb, deleted boolean) returns void language plpgsql as $$
         begin
             if exists (select from public.away) then raise 'no address'; end if;
             insert into public.mailed values (key);
         end $$;
         insert into orders values (1, 0), (2, 0)",
    )
    .await;
    let process = "select seriatim.log_tick(); select seriatim.log_process('orders', 'mailer', 'mail')";
    shop.sql(process).await;
    assert_eq!(shop.number("select count(*) from seriatim.log_parked").await, 2);
    let no_reason = "select seriatim.log_discard('orders', 'mailer', '{\"id\":1}', ' ')";
    assert!(shop.writer.batch_execute(no_reason).await.is_err());
    let discard = "select seriatim.log_discard('orders', 'mailer', '{\"id\":1}', 'moved away')::int::bigint";
    assert_eq!((shop.number(discard).await, shop.number(discard).await), (1, 0));
    assert_eq!(
        shop.texts("select key->>'id' || ' ' || error || ', ' || reason from seriatim.log_discarded").await,
        ["1 no address, moved away"]
    );
    shop.sql("truncate away").await;
    assert_eq!(shop.number("select seriatim.log_retry('orders', 'mailer')").await, 1);
    shop.sql("select seriatim.log_process('orders', 'mailer', 'mail')").await;
    assert_eq!(
        shop.texts("select key::text from mailed").await,
        ["{\"id\": 2}"],
        "what was dropped does not come"
    );
}

#[tokio::test]
async fn whoever_changed_few_rows_before_is_not_slow_to_change_many() {
    for init in ["'orders'", "'orders', deletes => false"] {
        let shop = Shop::with(ORDERS).await;
        shop.sql("insert into orders select g, 0 from generate_series(1, 30000) g").await;
        shop.init_by_sql(&format!("select seriatim.log_init({init})")).await;
        for small in ["where false", "where id = 1"] {
            let writer = shop.place.client().await;
            writer.batch_execute(&format!("update orders set amount = 0 {small}")).await.unwrap();
            // It takes a third of a second.
            let many = "set statement_timeout = '20s'; update orders set amount = amount + 1";
            writer.batch_execute(many).await.unwrap();
        }
        while shop.number("select seriatim.log_id_orders_update_seq(100000)").await > 0 {}
        assert_eq!(shop.number("select seriatim.log_id_orders_lag(0)").await, 30_000);
    }
}

#[tokio::test]
async fn a_foreign_key_takes_the_key_of_a_deleted_row_along() {
    let shop = Shop::with(ORDERS).await;
    shop.init_by_sql("select seriatim.log_init('orders', foreign_key => true); select seriatim.log_register('orders', 'c')").await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 4) g").await;
    shop.number("select seriatim.log_id_orders_update_seq()").await;
    shop.sql("delete from orders where id = 2; update orders set id = 40 where id = 4").await;
    assert_eq!(keys_after(&shop, 0).await, ["1 1", "3 3"], "at once");
    shop.number("select seriatim.log_id_orders_update_seq()").await;
    assert_eq!(keys_after(&shop, 0).await, ["1 1", "3 3", "5 40"]);
    // A row that is being deleted while numbers are given leaves nothing behind either.
    let deleter = shop.place.client().await;
    shop.sql("update orders set amount = 1 where id = 3").await;
    deleter.batch_execute("begin; delete from orders where id = 3").await.unwrap();
    assert_eq!(shop.number("select seriatim.log_id_orders_update_seq()").await, 1, "it blocks nobody");
    deleter.batch_execute("commit").await.unwrap();
    assert_eq!(keys_after(&shop, 0).await, ["1 1", "5 40"]);
    shop.number("select seriatim.log_consumed('orders', 'c', 6)").await;
    shop.number("select seriatim.log_consumed('orders', 'c', 6)").await;
    assert_eq!(shop.number("select count(*) from seriatim.log_id_orders_places").await, 2, "swept");
    assert_eq!(shop.number("select count(*) from seriatim.log_id_orders_keys").await, 2);
    let refused =
        shop.writer.batch_execute("select seriatim.log_init_delete_trigger('orders')").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("forgets a key with its row"), "{refused:?}");
}

#[tokio::test]
async fn without_a_foreign_key_and_without_deletes_vanished_rows_are_swept() {
    let shop = Shop::with(ORDERS).await;
    shop.init_by_sql(
        "select seriatim.log_init('orders', deletes => false); select seriatim.log_register('orders', 'c')",
    )
    .await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 4) g").await;
    shop.number("select seriatim.log_id_orders_update_seq()").await;
    shop.sql("delete from orders where id = 2").await;
    assert_eq!(keys_after(&shop, 0).await, ["1 1", "3 3", "4 4"]);
    shop.number("select seriatim.log_consumed('orders', 'c', 4)").await;
    assert_eq!(shop.number("select count(*) from seriatim.log_id_orders_keys").await, 3);
    shop.sql("insert into orders values (2, 9)").await;
    shop.number("select seriatim.log_id_orders_update_seq()").await;
    assert_eq!(keys_after(&shop, 4).await, ["5 2"], "what comes back is noted anew");
}

#[tokio::test]
async fn numbers_are_not_given_in_transactions_that_cannot_see_who_came_before() {
    let shop = Shop::with(ORDERS).await;
    shop.init_by_sql("select seriatim.log_init('orders')").await;
    let wrong = "begin isolation level repeatable read; select seriatim.log_id_orders_update_seq()";
    let refused = shop.writer.batch_execute(wrong).await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("READ COMMITTED"), "{refused:?}");
}

#[tokio::test]
async fn a_reader_needs_no_more_grants_than_the_documents_say() {
    let shop = Shop::with(ORDERS).await;
    shop.init_by_sql("select seriatim.log_init('orders'); insert into orders values (1, 1), (2, 1)").await;
    let role = format!("reader_{}", fastrand::u64(..));
    shop.sql(&format!(
        "create role {role} login; grant usage on schema seriatim to {role}; grant select on seriatim.log_id_orders to {role}"
    ))
    .await;
    let reader = crate::support::client(&shop.place.url().replace("postgres@", &format!("{role}@"))).await;
    let run =
        async |sql: &str| reader.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    run("select seriatim.log_tick(); select * from seriatim.log_id_orders; select seriatim.log_id_orders_batch(0, 9)").await;
    shop.sql(&format!(
        "grant select, insert, update, delete on seriatim.log_consumer to {role};
         grant select on seriatim.log, seriatim.log_id_orders_seq to {role}"
    ))
    .await;
    run("select seriatim.log_register('orders', 'later', false); select seriatim.log_consumed('orders', 'later', 2)").await;
    shop.sql(&format!(
        "grant update (listing, to_list) on seriatim.log to {role}; grant select on orders to {role}"
    ))
    .await;
    run("select seriatim.log_register('orders', 'rows'); select seriatim.log_list('orders', 100)").await;
    run("select seriatim.log_forget('orders', 'rows')").await;
}
