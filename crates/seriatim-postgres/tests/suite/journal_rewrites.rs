//! Tables that are rewritten, or whose rows are hidden, while existing rows are read.

use seriatim::source::{Install, Start};
use seriatim_postgres::{Capture, Source};

use crate::journal_kit::{Follower, ORDERS, Shop, run};

#[tokio::test]
async fn a_rewrite_that_commits_while_a_chunk_is_read_hides_no_row() {
    let partitioned =
        "create table orders (id bigint primary key, amount int not null) partition by range (id);
                       create table all_orders partition of orders default";
    for schema in [ORDERS, partitioned] {
        let shop = Shop::with(schema).await;
        shop.sql("insert into orders select g, g from generate_series(1, 50) g").await;
        let mut follower = shop.follow(Start::Beginning).await;
        shop.sql("begin; alter table orders alter column amount type bigint").await;
        let reader = tokio::spawn(async move { follower.all().await });
        shop.place.waits_for_a_lock().await;
        shop.sql("commit").await;
        assert_eq!(reader.await.unwrap().len(), 50, "{schema}");
    }
}

/// A role of its own that may watch, and is no superuser.
async fn watcher(shop: &Shop) -> Capture {
    let role = format!("watcher_{}", shop.place.url().rsplit('/').next().unwrap());
    shop.sql(&format!(
        "create role {role} login; grant all on schema public to {role};
         grant create on database \"{}\" to {role}; alter table orders owner to {role};
         alter table orders enable row level security; alter table orders force row level security;
         create policy a_few on orders using (id > 2) with check (true)",
        shop.place.url().rsplit('/').next().unwrap()
    ))
    .await;
    let url = shop.place.url().replacen("postgres@", &format!("{role}@"), 1);
    assert_ne!(url, shop.place.url());
    Source::connect(&url).unwrap().journal("orders").partitions(2)
}

#[tokio::test]
async fn existing_rows_that_row_security_hides_are_not_passed_over() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 1), (2, 2), (3, 3)").await;
    let capture = watcher(&shop).await;
    let capture = capture.with_existing_rows();
    let said = capture.check().await.expect_err("check says that rows are hidden").to_string();
    assert!(said.contains("row level security") && said.contains("bypassrls"), "{said}");
    let said = Follower::try_open(capture, Start::Beginning).await.err().unwrap().to_string();
    assert!(said.contains("row level security"), "{said}");
}

#[tokio::test]
async fn row_security_that_comes_while_rows_are_read_stops_the_feed() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 1), (2, 2), (3, 3)").await;
    let capture = watcher(&shop).await;
    shop.sql("alter table orders no force row level security").await;
    let mut follower = Follower::open(capture, Start::Beginning).await;
    shop.sql("alter table orders force row level security").await;
    let said = follower.try_read(crate::journal_kit::LIMIT).await.expect_err("it must not go on").to_string();
    assert!(said.contains("row level security") || said.contains("row-level security"), "{said}");
    run(&shop.writer, "alter table orders no force row level security").await;
    assert_eq!(follower.all().await.len(), 3);
}
