//! Processes that die, connections that break, servers that restart: who is taken for dead, and who is not.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seriatim::Store;
use seriatim::lease::Liveness;
use seriatim::store::JoinError;
use seriatim_postgres::PostgresStore;
use seriatim_testkit::servers::{Postgres, Proxy};

use crate::support::{EXPIRE, Place, host, join, own, see, sight, until};

const URL: &str = "SERIATIM_TEST_URL";

/// What the child process does: it owns the lease until its input ends, or it is killed.
async fn own_the_lease(url: String) {
    let store = PostgresStore::connect(&url).await.unwrap();
    let (session, _lease) = own(&store, "child").await;
    // The test runner's own words may stand before this on the line.
    println!("\nowns");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    store.leave(&session).await.unwrap();
}

/// This test program again, as the child: the test below, told by the variable to be it. Returns when it owns the lease.
fn child(place: &Place) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store_hosts::a_process_that_leaves_sets_its_lease_free", "--nocapture"])
        .env(URL, place.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "owns"), "the child ended early");
    child
}

async fn liveness_of(store: &PostgresStore, name: &str) -> Option<Liveness> {
    let hosts = store.view(&[]).await.unwrap().hosts;
    hosts.into_iter().find(|seen| seen.name == host(name)).map(|seen| seen.liveness)
}

/// How often hosts have taken their locks, all together.
async fn locks_taken(place: &Place) -> i64 {
    place
        .number("select sum(lock_number) from seriatim.host where locked_in = pg_postmaster_start_time()")
        .await
}

#[tokio::test]
async fn a_process_that_leaves_sets_its_lease_free() {
    if let Ok(url) = std::env::var(URL) {
        return own_the_lease(url).await;
    }
    let place = Place::new();
    let mut child = child(&place);
    let store = place.store().await;
    assert_eq!(liveness_of(&store, "child").await, Some(Liveness::Alive));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(see(&store).await.owner, None);
    assert_eq!(liveness_of(&store, "child").await, None);
}

#[tokio::test]
async fn a_killed_process_is_dead_and_its_lease_and_name_are_to_be_had_at_once() {
    let place = Place::new();
    let mut child = child(&place);
    let store = place.store().await;
    let session = join(&store, "parent").await;
    assert_eq!(liveness_of(&store, "child").await, Some(Liveness::Alive));
    child.kill().unwrap();
    child.wait().unwrap();
    // Long before any expiry, and whoever waits for news is woken.
    let known = async {
        while liveness_of(&store, "child").await != Some(Liveness::Dead) {
            store.wait(Duration::from_secs(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3), known).await.unwrap();
    let seen = sight(&store).await;
    let lease = store.acquire(&session, &seen).await.unwrap().unwrap();
    assert_eq!(lease.epoch, seen.lease.epoch.next());
    join(&store, "child").await;
}

#[tokio::test]
async fn the_name_of_a_host_that_lives_is_refused_at_once() {
    let place = Place::new();
    let (store, other) = (place.store().await, place.store().await);
    let ada = join(&store, "ada").await;
    let refused = other.join(&host("ada"), &[], EXPIRE, None).await;
    assert!(
        matches!(&refused, Err(JoinError::NameTaken { liveness: Liveness::Alive, session, .. }) if *session == ada.id),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_does_not_make_its_host_dead() {
    let place = Place::new();
    let (store, other) = (place.store().await, place.store().await);
    join(&store, "ada").await;
    join(&other, "bob").await;
    let before = locks_taken(&place).await;
    // Whoever holds an advisory lock here is a host's own connection.
    place
        .run(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
             and database = (select oid from pg_database where datname = current_database())",
        )
        .await;
    for _ in 0..100 {
        assert_ne!(liveness_of(&other, "ada").await, Some(Liveness::Dead));
        assert_ne!(liveness_of(&store, "bob").await, Some(Liveness::Dead));
        if locks_taken(&place).await >= before + 2
            && liveness_of(&other, "ada").await == Some(Liveness::Alive)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    panic!("the locks were not taken again");
}

#[tokio::test]
async fn a_server_that_restarts_makes_no_host_dead() {
    let server = Postgres::start().unwrap();
    let place = Place::on(&server);
    let proxy = Proxy::before(server.port()).unwrap();
    let through = place.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let cut_off = PostgresStore::connect(&through).await.unwrap();
    let (store, other) = (place.store().await, place.store().await);
    join(&cut_off, "carol").await;
    join(&store, "ada").await;
    join(&other, "bob").await;
    // Carol does not come back at once, and still nobody may think her dead.
    proxy.close();
    server.restart().unwrap();
    let back = || async { store.view(&[]).await.is_ok() };
    until("the server is back", back).await;
    until("its neighbours have their locks", || async { locks_taken(&place).await == 4 }).await;
    for _ in 0..5 {
        store.wait(Duration::from_millis(400)).await;
        for name in ["ada", "bob", "carol"] {
            assert_ne!(liveness_of(&store, name).await, Some(Liveness::Dead), "{name}");
        }
    }
    proxy.open();
    until("carol is back", || async { liveness_of(&store, "carol").await == Some(Liveness::Alive) }).await;
    drop(cut_off);
    until("carol is gone", || async { liveness_of(&store, "carol").await == Some(Liveness::Dead) }).await;
}

#[tokio::test]
async fn the_next_who_joins_buries_those_who_are_long_dead() {
    let place = Place::new();
    let crashed = place.store().await;
    join(&crashed, "one").await;
    join(&crashed, "two").await;
    drop(crashed);
    place.run("update seriatim.host set seen_at = seen_at - interval '1 hour' where name = 'one'").await;
    let store = place.store().await;
    until("the dead one is gone", || async {
        let name = format!("three {}", fastrand::u32(..));
        join(&store, &name).await;
        liveness_of(&store, "one").await.is_none()
    })
    .await;
    assert!(liveness_of(&store, "two").await.is_some(), "perhaps it only looks dead");
}

#[tokio::test]
async fn who_waits_is_woken_by_a_request() {
    let place = Place::new();
    let (store, other) = (place.store().await, place.store().await);
    own(&store, "ada").await;
    let woken = async {
        loop {
            store.wait(Duration::from_secs(60)).await;
            if see(&store).await.hand_over_to == Some(host("bob")) {
                return;
            }
        }
    };
    let asking = async {
        assert!(other.request_hand_over(&see(&other).await, &host("bob")).await.unwrap());
    };
    let both = async { tokio::join!(woken, asking) };
    tokio::time::timeout(Duration::from_secs(5), both).await.unwrap();
}

#[tokio::test]
async fn who_cannot_listen_looks_often() {
    let server = Postgres::shared();
    let place = Place::on(server);
    let proxy = Proxy::before(server.port()).unwrap();
    let through = place.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let store = PostgresStore::connect(&through).await.unwrap();
    join(&store, "ada").await;
    proxy.close();
    let looks = async {
        for _ in 0..8 {
            store.wait(Duration::from_secs(60)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), looks).await.unwrap();
}

#[tokio::test]
async fn many_may_set_the_store_up_at_once() {
    let place = Place::new();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let url = place.url().to_owned();
        opening.spawn(async move { PostgresStore::connect(&url).await.unwrap().identity().await.unwrap() });
    }
    let mut ids = opening.join_all().await;
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

/// What a version before the sign of life of sessions writes when a host joins.
const OLDER_JOIN: &str = "insert into seriatim.host (name, session, feeds, beat, seen_at, lock_key) \
                          values ('old', 's', '{}', 7, now(), 1)";

#[tokio::test]
async fn a_host_of_an_older_version_is_refused_and_one_that_runs_is_taken_out_once_it_is_silent() {
    let place = Place::new();
    let store = place.store().await;
    let client = place.client().await;
    let refused = client.batch_execute(OLDER_JOIN).await.unwrap_err();
    let refused = refused.as_db_error().unwrap().message().to_owned();
    assert!(refused.contains("a newer version of Seriatim"), "{refused}");
    // It was there before the tables were brought up to date.
    let joined = format!(
        "alter table seriatim.host disable trigger user; {OLDER_JOIN}; alter table seriatim.host enable trigger user"
    );
    place.run(&joined).await;
    let older = store.older_hosts(&[]).await.unwrap();
    let [old] = older.as_slice() else { panic!("{older:?}") };
    assert_eq!((old.name.as_str(), old.beat), ("old", 7));
    place.run("update seriatim.host set beat = 8").await;
    assert_eq!(store.older_hosts(&[(old.session.clone(), 7)]).await.unwrap().len(), 1, "it has beaten since");
    assert_eq!(store.older_hosts(&[(old.session.clone(), 8)]).await.unwrap(), []);
    assert_eq!(store.view(&[]).await.unwrap().hosts, []);
}
