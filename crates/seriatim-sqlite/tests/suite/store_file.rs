//! The file: making it, sharing it, finding it locked.

use seriatim::Store;
use seriatim::store::StoreError;
use seriatim_sqlite::SqliteStore;

use crate::support::{File, own};

#[tokio::test]
async fn a_store_that_never_ran_is_not_made_by_looking() {
    let file = File::new();
    assert!(SqliteStore::open_existing(&file.path()).await.unwrap().is_none());
    assert!(!file.path().exists());

    file.sqlite().execute_batch("create table orders (id integer primary key)").unwrap();
    assert!(SqliteStore::open_existing(&file.path()).await.unwrap().is_none());
    let mode: String = file.sqlite().query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "the user's file is as it was");
    let beside: Vec<_> = std::fs::read_dir(file.path().parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1);
}

#[tokio::test]
async fn looking_for_a_store_leaves_nothing_beside_a_file_in_wal_mode() {
    let file = File::new();
    file.sqlite()
        .execute_batch("pragma journal_mode = wal; create table orders (id integer primary key)")
        .unwrap();
    assert!(SqliteStore::open_existing(&file.path()).await.unwrap().is_none());
    let beside: Vec<_> = std::fs::read_dir(file.path().parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[tokio::test]
async fn a_store_that_ran_is_found() {
    let file = File::new();
    let identity = file.store().await.identity().await.unwrap();
    let found = SqliteStore::open_existing(&file.path()).await.unwrap().unwrap();
    assert_eq!(found.identity().await.unwrap(), identity);
    assert_eq!(found.path(), file.path());
}

#[tokio::test]
async fn a_store_made_anew_at_the_same_place_is_another() {
    let file = File::new();
    let identity = file.store().await.identity().await.unwrap();
    let other = File::new();
    assert_ne!(other.store().await.identity().await.unwrap(), identity);
}

#[tokio::test]
async fn all_tables_bear_our_name() {
    let file = File::new();
    file.store().await;
    let foreign =
        "select count(*) from sqlite_master where name not like 'seriatim_%' and name not like 'sqlite_%'";
    assert_eq!(file.number(foreign), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_open_a_new_file_at_once_make_one_store() {
    let file = File::new();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let path = file.path();
        opening.spawn(async move { SqliteStore::open(&path).await.unwrap().identity().await.unwrap() });
    }
    let mut identities = opening.join_all().await;
    identities.dedup();
    assert_eq!(identities.len(), 1);
}

#[tokio::test]
async fn a_file_that_somebody_else_has_locked_is_worth_another_try() {
    let file = File::new();
    let store = file.store().await;
    let (session, _) = own(&store, "ada").await;
    let writer = file.sqlite();
    writer.execute_batch("begin immediate").unwrap();
    let refused = store.renew(&session).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("locked by another process"), "{refused}");
    assert!(store.view(&[]).await.is_ok(), "readers do not wait for writers");
    writer.execute_batch("rollback").unwrap();
    store.renew(&session).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_waits_for_a_person() {
    let file = File::new();
    std::fs::write(
        file.path(),
        "not a database, but long enough to have a header of a hundred bytes or more ".repeat(9),
    )
    .unwrap();
    let refused = StoreError::from(SqliteStore::open(&file.path()).await.unwrap_err());
    assert!(matches!(refused, StoreError::NeedsAttention { .. }), "{refused}");
}

/// What a version before the sign of life of sessions writes when a host joins.
const OLDER_JOIN: &str = "insert or replace into seriatim_host (name, session, feeds, beat, seen_at) values ('old', 's', '[]', 7, 0)";

#[tokio::test]
async fn a_host_of_an_older_version_is_refused_with_a_sentence() {
    let file = File::new();
    let _store = file.store().await;
    let refused = file.sqlite().execute_batch(OLDER_JOIN).unwrap_err().to_string();
    assert!(refused.contains("a newer version of Seriatim"), "{refused}");
}

#[tokio::test]
async fn a_host_of_an_older_version_is_taken_out_once_it_is_silent_and_not_before() {
    let file = File::new();
    let store = file.store().await;
    // It was there before the tables were brought up to date.
    file.sqlite().execute_batch("drop trigger seriatim_host_is_of_this_version").unwrap();
    file.sqlite().execute_batch(OLDER_JOIN).unwrap();
    let older = store.older_hosts(&[]).await.unwrap();
    let [host] = older.as_slice() else { panic!("{older:?}") };
    assert_eq!((host.name.as_str(), host.beat), ("old", 7));
    file.sqlite().execute_batch("update seriatim_host set beat = 8").unwrap();
    assert_eq!(
        store.older_hosts(&[(host.session.clone(), 7)]).await.unwrap().len(),
        1,
        "it has beaten since"
    );
    assert_eq!(store.older_hosts(&[(host.session.clone(), 8)]).await.unwrap(), []);
    assert_eq!(store.view(&[]).await.unwrap().hosts, []);
}
