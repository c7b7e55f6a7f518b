//! Rows that a transaction or a role does not see: the log misses none of them, or refuses.

use seriatim::source::{Feed, Install, Start};
use seriatim_postgres::Source;

use crate::log_kit::{Follower, LIMIT, ORDERS, Shop, told};
use crate::support::client;

#[tokio::test]
async fn truncate_deletes_rows_that_are_newer_than_its_snapshot() {
    for isolation in ["repeatable read", "serializable"] {
        let shop = Shop::with(ORDERS).await;
        shop.sql("insert into orders select g, 0 from generate_series(1, 3) g").await;
        let truncating = shop.place.client().await;
        let begin = format!("begin isolation level {isolation}; select from pg_class limit 1");
        let log = || shop.source().log("orders").partitions(1).with_deletes();
        let mut follower = Follower::open(log(), Start::Beginning).await;
        follower.drain().await;
        truncating.batch_execute(&begin).await.unwrap();
        shop.sql("insert into orders values (4, 0); update orders set amount = 1 where id = 3").await;
        follower.drain().await;
        assert_eq!(follower.states.len(), 4);
        truncating.batch_execute("truncate orders; insert into orders values (2, 7); commit").await.unwrap();
        follower.drain().await;
        assert_eq!(follower.states.values().collect::<Vec<_>>(), ["[2,7]"], "{isolation}");
        follower
            .consumes_until(&shop, 0, "select count(*) from seriatim.log_id_orders_keys where id <> 2")
            .await;
        assert_eq!(shop.number("select count(*) from seriatim.log_truncated").await, 0);
        assert!(follower.drain().await.is_empty(), "nothing comes twice");
    }
}

#[tokio::test]
async fn truncate_deletes_rows_that_were_there_before_the_log_was_seen() {
    let shop = Shop::with(ORDERS).await;
    let truncating = shop.place.client().await;
    truncating
        .batch_execute("begin isolation level repeatable read; select from pg_class limit 1")
        .await
        .unwrap();
    shop.sql("insert into orders select g, 0 from generate_series(1, 2500) g").await;
    let mut follower =
        Follower::open(shop.source().log("orders").partitions(1).with_deletes(), Start::Beginning).await;
    follower.drain().await;
    assert_eq!(follower.states.len(), 2500);
    truncating.batch_execute("truncate orders; commit").await.unwrap();
    // A writer that has one of the keys in hand, and is rolled back, does not keep its row alive.
    shop.sql("begin; insert into orders values (7, 7)").await;
    for _ in 0..20 {
        shop.place.number("select coalesce(seriatim.log_id_orders_update_seq(1000), 0)").await;
    }
    shop.sql("rollback").await;
    follower.drain().await;
    assert_eq!(follower.states.len(), 0);
}

/// Two roles: one owns the table and forces its policies on itself, the other may do everything.
struct Roles<'a> {
    shop: &'a Shop,
    role: String,
}

impl Roles<'_> {
    async fn new(shop: &Shop) -> Roles<'_> {
        let role = format!("tenant_{}", fastrand::u64(..));
        shop.sql(&format!(
            "create role {role} login; grant create on database \"{}\" to {role}; alter table orders owner to {role}",
            shop.place.url().rsplit('/').next().unwrap()
        ))
        .await;
        Roles { shop, role }
    }

    fn url(&self) -> String {
        self.shop.place.url().replace("postgres@", &format!("{}@", self.role))
    }

    fn source(&self) -> Source {
        Source::connect(&self.url()).unwrap()
    }
}

const HIDE: &str = "alter table orders enable row level security; alter table orders force row level security; \
                    create policy few on orders using (amount > 0)";

#[tokio::test]
async fn a_table_whose_rows_may_be_hidden_is_refused() {
    let shop = Shop::with(ORDERS).await;
    shop.sql("insert into orders values (1, 0), (2, 1)").await;
    shop.sql(HIDE).await;
    let roles = Roles::new(&shop).await;
    let log = roles.source().log("orders").with_deletes();
    for error in [log.check().await.err(), Follower::try_open(log, Start::Beginning).await.err()] {
        let error = error.expect("refused").to_string();
        assert!(error.contains("row level security"), "{error}");
    }
    let owner = client(&roles.url()).await;
    let by_sql = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/log")).unwrap();
    let mut files: Vec<_> = by_sql.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        owner.batch_execute(&std::fs::read_to_string(file).unwrap()).await.unwrap();
    }
    let refused = owner.batch_execute("select seriatim.log_init('orders')").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("row level security"), "{refused:?}");
    // A role that sees every row may watch it.
    shop.sql(&format!("alter role {} bypassrls", roles.role)).await;
    let mut follower = Follower::open(roles.source().log("orders"), Start::Beginning).await;
    assert_eq!(follower.drain().await.len(), 2);
}

#[tokio::test]
async fn rows_that_are_hidden_later_are_not_taken_for_deleted() {
    let shop = Shop::with(ORDERS).await;
    let roles = Roles::new(&shop).await;
    let mut follower =
        Follower::open(roles.source().log("orders").partitions(1).with_deletes(), Start::Beginning).await;
    shop.sql("insert into orders values (1, 0), (2, 1)").await;
    follower.drain().await;
    shop.sql(HIDE).await;
    shop.sql("update orders set amount = -1 where id = 1").await;
    let error = follower.try_read(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("row level security"), "{error}");
    let error = follower.capture.check().await.unwrap_err().to_string();
    assert!(error.contains("row level security"), "{error}");
    // Writers are not held up, not even by a TRUNCATE whose rows cannot be read.
    shop.sql("truncate orders; insert into orders values (3, 3)").await;
    shop.sql("alter table orders no force row level security").await;
    follower.drain().await;
    assert_eq!(follower.states.values().collect::<Vec<_>>(), ["[3,3]"]);
}

#[tokio::test]
async fn a_log_and_a_journal_share_a_partitioned_table() {
    let shop = Shop::with(
        "create table orders (id int primary key, amount int) partition by range (id);
         create table low partition of orders for values from (0) to (10)",
    )
    .await;
    let name = |name: &str| seriatim::FeedName::new(name).unwrap();
    for round in 0..2 {
        let mut log = shop.source().log("orders").partitions(1).with_deletes();
        let mut journal = shop.source().journal("orders").partitions(1);
        log = log.named(name(&format!("log{round}")));
        journal = journal.named(name(&format!("journal{round}")));
        let consumer = crate::log_kit::consumer(journal.name().as_str());
        if round == 0 {
            journal.install(&consumer, &Start::Now).await.unwrap();
        }
        let mut states = Follower::open(log, Start::Now).await;
        // Once more, as every start of a host does.
        let position = journal.open(&consumer, &Start::Now).await.unwrap();
        shop.sql(&format!(
            "insert into orders values ({round}, 0); update orders set amount = amount + 1 where id = {round}"
        ))
        .await;
        assert_eq!(told(&states.drain().await), [format!(r#"upsert {{"id":{round}}}"#)]);
        let cursor = seriatim::source::Cursor { partition: seriatim::Partition(0), after: position };
        let slices = journal.read(&[cursor], LIMIT).await.unwrap();
        assert_eq!(slices.into_iter().map(|slice| slice.changes.count()).sum::<usize>(), 2);
    }
}
