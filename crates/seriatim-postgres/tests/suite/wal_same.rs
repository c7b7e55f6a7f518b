//! Both captures tell the same of the same writes: by triggers, and by the log.

use std::collections::BTreeMap;

use proptest::prelude::RngExt as _;
use proptest::test_runner::TestRng;
use seriatim::Change;
use seriatim::source::Start;

use crate::journal_kit::{Follower, Shop, run};
use crate::journal_values::{ALL_TYPES, ROW};
use crate::wal_kit::all;

/// What both can know of each object's changes, in order.
fn by_key(changes: &[Change]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.id);
    for change in &changes {
        let row = |row: &Option<seriatim::Row>| row.as_ref().map(|row| row.to_json().to_string());
        let key = change.key.as_ref().map_or("all".to_owned(), ToString::to_string);
        found.entry(key).or_default().push(format!(
            "{} {:?} {:?}",
            change.op.as_str(),
            row(&change.before),
            row(&change.after)
        ));
    }
    found
}

async fn both(shop: &Shop, table: &str) -> (Follower, Follower) {
    let feed = |name: &str| seriatim::FeedName::new(name).unwrap();
    let journal = shop.source().journal(table).partitions(1).named(feed("journal"));
    let wal = shop.source().wal(table).partitions(1).named(feed("wal"));
    (Follower::open(journal, Start::Now).await, Follower::open(wal, Start::Now).await)
}

#[tokio::test]
async fn every_type_comes_in_the_same_json() {
    let shop = Shop::with(&format!("{ALL_TYPES}; alter table everything replica identity full")).await;
    let (mut journal, mut wal) = both(&shop, "everything").await;
    shop.sql(ROW).await;
    shop.sql("insert into everything (id, j, jb) values (2, 'null', 'null'), (3, null, null)").await;
    let odd = shop.session().await;
    run(
        &odd,
        "set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'; set intervalstyle = 'sql_standard'",
    )
    .await;
    run(
        &odd,
        "set bytea_output = 'escape'; set extra_float_digits = -10; update public.everything set i4 = i4 + 0",
    )
    .await;
    let (by_triggers, by_log) = (journal.all().await, all(&mut wal).await);
    assert_eq!(by_log.len(), 6);
    assert_eq!(by_key(&by_log), by_key(&by_triggers));
    let values =
        |changes: &[Change]| changes.iter().filter_map(|change| change.after.clone()).collect::<Vec<_>>();
    assert_eq!(values(&by_log), values(&by_triggers), "documents that are null, too");
}

/// How many random histories: `SERIATIM_WAL_SEEDS` says another number.
fn seeds() -> u64 {
    std::env::var("SERIATIM_WAL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn random_writes_come_alike_by_triggers_and_by_the_log() {
    for seed in 0..seeds() {
        let mut random = TestRng::from_seed(
            proptest::test_runner::RngAlgorithm::ChaCha,
            &std::array::from_fn::<u8, 32, _>(|at| (seed >> (8 * (at % 8))) as u8),
        );
        let shop = Shop::with(
            "create table t (id int primary key, k int, v text); alter table t replica identity full",
        )
        .await;
        let (mut journal, mut wal) = both(&shop, "t").await;
        let other = shop.session().await;
        for _ in 0..60 {
            let session = if random.random_bool(0.5) { &shop.writer } else { &other };
            let (id, new) = (random.random_range(0..8), random.random_range(0..8));
            let sql = match random.random_range(0..7) {
                0 | 1 => format!(
                    "insert into t values ({id}, {new}, repeat('x', {new})) on conflict (id) do update set k = excluded.k"
                ),
                2 => format!("update t set k = k + 1 where id >= {id}"),
                3 => format!("delete from t where id = {id}"),
                4 => format!(
                    "update t set id = id + 100 where id = {id}; update t set id = {new} where id > 99 and not exists (select from t where id = {new}); delete from t where id > 99"
                ),
                5 => format!(
                    "begin; insert into t values ({id}, 0, null) on conflict do nothing; savepoint a; delete from t; rollback to a; update t set v = null where id = {new}; commit"
                ),
                _ if random.random_range(0..6) == 0 => "truncate t".to_owned(),
                _ => format!(
                    "begin; delete from t where id = {id}; insert into t values ({id}, 1, '') on conflict do nothing; rollback"
                ),
            };
            run(session, &sql).await;
        }
        let (by_triggers, by_log) = (journal.all().await, all(&mut wal).await);
        assert!(!by_log.is_empty());
        assert_eq!(by_key(&by_log), by_key(&by_triggers), "seed {seed}");
    }
}
