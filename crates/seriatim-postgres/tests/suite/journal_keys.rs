//! Keys: an object is in one partition, whatever its key is made of and called, and whatever it is called later.

use std::collections::{BTreeMap, BTreeSet};

use seriatim::Partition;
use seriatim::change::Change;
use seriatim::source::{Limit, Start};

use crate::journal_kit::{Follower, ORDERS, Shop, run};

/// The partitions that each object's changes are in.
fn partitions(changes: &[Change]) -> BTreeMap<u64, BTreeSet<Partition>> {
    let mut found: BTreeMap<u64, BTreeSet<Partition>> = BTreeMap::new();
    for change in changes {
        found.entry(change.key.as_ref().unwrap().hash()).or_default().insert(change.partition);
    }
    found
}

#[tokio::test]
async fn a_key_that_is_renamed_before_its_changes_are_read_is_found_in_all_of_them() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders values (1, 1)").await;
    shop.sql("alter table orders rename column id to number; alter table orders add column x int").await;
    shop.sql("update orders set amount = 2").await;
    let changes = follower.all().await;
    assert_eq!(changes.len(), 2);
    assert_eq!(
        changes[0].key.as_ref().map(seriatim::Key::hash),
        changes[1].key.as_ref().map(seriatim::Key::hash)
    );
}

#[tokio::test]
async fn a_key_that_was_renamed_behind_an_old_snapshot_stays_in_its_partition() {
    let partitioned = "create table orders (id bigint primary key, amount int) partition by range (id);
                       create table all_orders partition of orders default";
    for schema in [ORDERS, partitioned] {
        let shop = Shop::with(schema).await;
        let mut follower = shop.follow(Start::Now).await;
        shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
        let late = shop.session().await;
        run(&late, "begin isolation level repeatable read; select from pg_class").await;
        shop.sql("alter table orders rename column id to number").await;
        run(&late, "update orders set amount = 1; commit").await;
        // Whatever it has kept of that moment is still there.
        run(&late, "update orders set amount = 2").await;
        let found = partitions(&follower.all().await);
        assert_eq!(found.len(), 20);
        assert!(found.values().all(|of_one| of_one.len() == 1), "{found:?}");
    }
}

#[tokio::test]
async fn a_key_whose_name_another_column_takes_over_stays_the_key() {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    shop.sql("alter table orders rename column id to number; alter table orders rename column amount to id")
        .await;
    shop.sql("update orders set id = 1000 - number; delete from orders").await;
    let changes = follower.all().await;
    let found = partitions(&changes);
    assert_eq!((changes.len(), found.len()), (60, 20));
    assert!(found.values().all(|of_one| of_one.len() == 1), "{found:?}");
}

#[tokio::test]
async fn an_object_is_in_the_same_partition_when_it_exists_and_when_it_changes() {
    let columns =
        "small int2, middle int4, large int8, id uuid, word text, short varchar(40), rest numeric(9, 2)";
    let values = "select 1, -2, 3 * g, ('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid, \
                  e'\"\\\\ \\t\\u0001\\u20ac ' || g, ' ' || g || ' ', g + 0.5 from generate_series(1, 20) g";
    let keys = ["small, middle, large, id, word, short", "large", "id", "word", "short", "word, rest"];
    for key in keys {
        let shop =
            Shop::with(&format!("create table orders ({columns}, amount int, primary key ({key}))")).await;
        shop.sql(&format!("insert into orders {values}")).await;
        let mut follower = shop.follow(Start::Beginning).await;
        let mut changes = follower.all().await;
        shop.sql("update orders set amount = 1; delete from orders").await;
        changes.extend(follower.all().await);
        let found = partitions(&changes);
        assert_eq!((changes.len(), found.len()), (60, 20), "{key}");
        assert!(found.values().all(|of_one| of_one.len() == 1), "{key}: {found:?}");
    }
}

#[tokio::test]
async fn a_key_may_have_the_name_of_anything() {
    // Names of variables in the functions for writes inside of writes.
    let variables = ["noted", "started", "statements"];
    let names =
        ["r", "p", "image", "key_1", "absent", "new_rows", "$seriatim$", "a\"b", "a'b", "a\\b", "seriatim.x"];
    for name in variables.into_iter().chain(names) {
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let nests = "create function nothing() returns trigger language plpgsql as 'begin return null; end'; \
                     create trigger nothing after update on orders for each row execute function nothing()";
        let triggers = if variables.contains(&name) { &["", nests][..] } else { &[""] };
        for trigger in triggers {
            let shop = Shop::with(&format!(
                "create table orders ({quoted} bigint primary key, amount int); {trigger}"
            ))
            .await;
            let mut follower = shop.follow(Start::Now).await;
            shop.sql("insert into orders values (1, 1), (2, 2); update orders set amount = 3").await;
            shop.sql(&format!("update orders set {quoted} = 5 where {quoted} = 1; delete from orders")).await;
            let changes = follower.all().await;
            let found = partitions(&changes);
            assert_eq!((changes.len(), found.len()), (8, 3), "{name}");
            assert!(found.values().all(|of_one| of_one.len() == 1), "{name}: {found:?}");
        }
    }
}

#[tokio::test]
async fn keys_of_a_fixed_length_are_read_whole() {
    for (of, value) in [("char(12)", "'aa' || g"), ("bit(8)", "g::bit(8)")] {
        let shop = Shop::with(&format!("create table orders (a {of} primary key)")).await;
        shop.sql(&format!("insert into orders select {value} from generate_series(1, 9) g")).await;
        let mut follower =
            Follower::open(shop.source().journal("orders").partitions(1), Start::Beginning).await;
        let mut keys = BTreeSet::new();
        for _ in 0..9 {
            let (changes, _) = follower.read(Limit { rows: 2, bytes: 1 << 20 }).await;
            keys.extend(changes.iter().map(|change| change.key.as_ref().unwrap().identity()));
        }
        assert_eq!(keys.len(), 9, "{of}: {keys:?}");
    }
}
