//! Several processes on one file, some of them dead.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use seriatim::Store;
use seriatim::lease::Liveness;
use seriatim::store::JoinError;
use seriatim_sqlite::SqliteStore;

use crate::support::{EXPIRE, File, host, join, own, see, sight};

const FILE: &str = "SERIATIM_TEST_FILE";

/// What the child process does: it owns the lease until its input ends, or it is killed.
async fn own_the_lease(path: OsString) {
    let store = SqliteStore::open(path).await.unwrap();
    let (session, _lease) = own(&store, "child").await;
    // The test runner's own words may stand before this on the line.
    println!("\nowns");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    store.leave(&session).await.unwrap();
}

/// This test program again, as the child: the test below, told by the variable to be it. Returns when it owns the lease.
fn child(file: &File) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store_processes::a_process_that_leaves_takes_its_file_along", "--nocapture"])
        .env(FILE, file.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "owns"), "the child ended early");
    child
}

async fn liveness_of(store: &SqliteStore, name: &str) -> Option<Liveness> {
    let hosts = store.view(&[]).await.unwrap().hosts;
    hosts.into_iter().find(|seen| seen.name == host(name)).map(|seen| seen.liveness)
}

#[tokio::test]
async fn a_killed_process_is_dead_and_its_lease_and_name_are_to_be_had_at_once() {
    let file = File::new();
    let mut child = child(&file);
    let store = file.store().await;
    let session = join(&store, "parent").await;
    assert_eq!(liveness_of(&store, "child").await, Some(Liveness::Alive));
    assert!(matches!(
        store.join(&host("child"), &[], EXPIRE, None).await,
        Err(JoinError::NameTaken { liveness: Liveness::Alive, .. })
    ));

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(liveness_of(&store, "child").await, Some(Liveness::Dead));
    let seen = sight(&store).await;
    let lease = store.acquire(&session, &seen).await.unwrap().unwrap();
    assert_eq!(lease.epoch, seen.lease.epoch.next());
    assert_eq!(liveness_of(&store, "child").await, None, "the dead are buried by who takes their lease");
    assert_eq!(file.host_files(), 1);
    join(&store, "child").await;
}

#[tokio::test]
async fn a_process_that_leaves_takes_its_file_along() {
    if let Some(path) = std::env::var_os(FILE) {
        return own_the_lease(path).await;
    }
    let file = File::new();
    let mut child = child(&file);
    assert_eq!(file.host_files(), 1);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(file.host_files(), 0);
    assert_eq!(see(&file.store().await).await.owner, None);
}

#[tokio::test]
async fn the_next_who_joins_buries_all_the_dead() {
    let file = File::new();
    let crashed = file.store().await;
    join(&crashed, "one").await;
    join(&crashed, "two").await;
    drop(crashed);
    let store = file.store().await;
    join(&store, "three").await;
    assert_eq!(store.view(&[]).await.unwrap().hosts.len(), 1);
    assert_eq!(file.host_files(), 1);
}

#[tokio::test]
async fn a_missing_lock_file_proves_nothing() {
    let file = File::new();
    let (store, other) = (file.store().await, file.store().await);
    let session = join(&store, "ada").await;
    std::fs::remove_file(file.path().with_file_name("shop.db-hosts").join(session.id.as_str())).unwrap();
    assert_eq!(liveness_of(&other, "ada").await, Some(Liveness::Unknown));
    let refused = other.join(&host("ada"), &[], EXPIRE, None).await;
    assert!(matches!(refused, Err(JoinError::NameTaken { liveness: Liveness::Unknown, .. })));
}

#[tokio::test]
async fn a_host_is_alive_by_whatever_path_one_looks() {
    let file = File::new();
    let store = file.store().await;
    join(&store, "ada").await;
    let link = file.path().with_file_name("link.db");
    std::os::unix::fs::symlink(file.path(), &link).unwrap();
    let other = SqliteStore::open(&link).await.unwrap();
    assert_eq!(liveness_of(&other, "ada").await, Some(Liveness::Alive));
}

#[tokio::test]
async fn a_join_that_nobody_waited_for_does_not_hold_the_name() {
    let file = File::new();
    let store = file.store().await;
    let writer = file.sqlite();
    writer.execute_batch("begin immediate").unwrap();
    let name = host("ada");
    {
        // Polled once, so that it is under way; dropped before its answer comes.
        let mut joining = store.join(&name, &[], EXPIRE, None);
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(joining.as_mut().poll(context)))
                .await
                .is_pending()
        );
    }
    writer.execute_batch("commit").unwrap();
    join(&store, "ada").await;
}
