//! Windows: what is young, what is late, and what never rests.

use std::collections::HashSet;
use std::time::Duration;

use seriatim::clock;
use seriatim::source::{Feed, Install, Start};
use seriatim_postgres::{Horizon, Source, WindowCapture};

use crate::log_kit::Shop;
use crate::support::{Place, client, until};
use crate::window_kit::{Follower, key, keys, orders, touch};

const BUFFER: Duration = Duration::from_millis(200);

fn young(shop: &Shop) -> WindowCapture {
    shop.source().window("orders", "updated_at").buffer(BUFFER).every(Duration::from_millis(5))
}

#[tokio::test]
async fn a_row_is_waited_for_until_the_buffer_has_passed() {
    let shop = orders(&[]).await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    let began = clock::now();
    touch(&shop, 1).await;
    let (changes, caught_up) = follower.read().await;
    assert!(changes.is_empty() && !caught_up, "it is there, and too young");
    assert_eq!(keys(&follower.drain().await), [1]);
    assert!(began.elapsed() >= BUFFER);
}

#[tokio::test]
async fn what_is_ahead_of_its_time_is_not_waited_for_and_is_named() {
    let shop = orders(&[10]).await;
    shop.sql("insert into orders values (2, 'tea', now() + interval '1 day')").await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    let blockers = follower.window.blockers().await.unwrap();
    assert!(blockers[0].what.contains("has rows that change only in the future"), "{blockers:?}");
}

/// A transaction begins, and another one writes a row and commits. The first one writes its own, with the older moment, and stays
/// open for ten times the buffer. Returns what comes.
async fn with_a_long_transaction(shop: &Shop, window: WindowCapture, exact: bool) -> Vec<i64> {
    let mut follower = Follower::open(window, Start::Beginning).await;
    let late = shop.place.client().await;
    late.batch_execute("set application_name = 'importer'; begin; select 1").await.unwrap();
    touch(shop, 9).await;
    let (began, mut seen, mut named) = (clock::now(), Vec::new(), false);
    while began.elapsed() < 10 * BUFFER {
        seen.extend(keys(&follower.read().await.0));
        let blockers = follower.window.blockers().await.unwrap();
        named |= blockers.iter().any(|blocker| {
            blocker.what.contains("a transaction of importer (pid ")
                && blocker.what.contains("user postgres), open for")
                && blocker.what.contains("its last statement began at")
                && blocker.remedy.contains("pg_terminate_backend")
        });
    }
    assert_eq!(named, exact, "whoever holds the window back is named");
    // Only now does it get an xid.
    late.batch_execute("insert into orders values (1, 'late', now()); commit").await.unwrap();
    seen.extend(keys(&follower.drain_all().await));
    seen
}

#[tokio::test]
async fn a_transaction_that_stays_open_for_ten_times_the_buffer_is_not_missed() {
    let shop = orders(&[]).await;
    assert_eq!(with_a_long_transaction(&shop, young(&shop), true).await, [1, 9]);
}

#[tokio::test]
async fn by_the_buffer_alone_a_transaction_that_takes_longer_is_missed() {
    let shop = orders(&[]).await;
    let window = young(&shop).horizon(Horizon::Buffer);
    assert_eq!(with_a_long_transaction(&shop, window, false).await, [9], "as documented");
}

#[tokio::test]
async fn a_role_that_may_not_see_other_sessions_falls_back_to_the_buffer_and_says_so() {
    let shop = orders(&[]).await;
    shop.sql(
        "do $$ begin create role window_reader login; exception when duplicate_object then null; end $$;
         grant select on orders to window_reader",
    )
    .await;
    let url = shop.place.url().replace("postgres@", "window_reader@");
    let source = Source::connect(&url).unwrap();
    let window = || source.window("orders", "updated_at").buffer(BUFFER).every(Duration::from_millis(5));
    let advice = window().advice().await.unwrap();
    assert!(advice[0].what.contains("the role window_reader may not see the transactions"), "{advice:?}");
    assert_eq!(advice[0].remedy, "grant pg_read_all_stats to \"window_reader\"");
    assert_eq!(with_a_long_transaction(&shop, window(), false).await, [9], "as it said");
}

#[tokio::test]
async fn a_role_that_may_not_read_the_table_is_told_what_to_grant() {
    let shop = orders(&[]).await;
    shop.sql("do $$ begin create role window_blind login; exception when duplicate_object then null; end $$")
        .await;
    let url = shop.place.url().replace("postgres@", "window_blind@");
    let window = Source::connect(&url).unwrap().window("orders", "updated_at");
    let said = window.check().await.unwrap_err().to_string();
    assert!(said.contains("grant select on \"public\".\"orders\" to \"window_blind\""), "{said}");
}

#[tokio::test]
async fn transactions_of_other_databases_and_vacuums_hold_nothing_back() {
    let (shop, elsewhere) = (orders(&[]).await, Place::new());
    let other = elsewhere.client().await;
    other.batch_execute("begin; create table x ()").await.unwrap();
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    touch(&shop, 1).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    assert!(follower.window.blockers().await.unwrap().is_empty());
    other.batch_execute("rollback").await.unwrap();
}

#[tokio::test]
async fn a_session_that_does_not_tell_what_it_does_makes_the_horizon_the_buffers() {
    let shop = orders(&[]).await;
    let silent = shop.place.client().await;
    silent.batch_execute("set track_activities = off; begin").await.unwrap();
    silent.batch_execute("select 1").await.unwrap();
    let advice = young(&shop).advice().await.unwrap();
    assert!(advice[0].what.contains("does not tell whether a transaction is open"), "{advice:?}");
}

#[tokio::test]
async fn a_prepared_transaction_is_waited_for_from_its_start_on() {
    let shop = orders(&[]).await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    follower.read().await;
    let late = shop.place.client().await;
    late.batch_execute("begin").await.unwrap();
    touch(&shop, 9).await;
    late.batch_execute("insert into orders values (1, 'late', now())").await.unwrap();
    // Seen open, and then prepared.
    follower.read().await;
    late.batch_execute("prepare transaction 'window 1'").await.unwrap();
    let began = clock::now();
    let mut second_life = Follower::open(young(&shop), Start::Beginning).await;
    let mut named = false;
    while began.elapsed() < 10 * BUFFER {
        assert!(follower.read().await.0.is_empty(), "what is older may still come");
        assert!(second_life.read().await.0.is_empty(), "nobody knows when it began");
        let blockers = follower.window.blockers().await.unwrap();
        named |= blockers.iter().any(|blocker| {
            blocker.what.contains("the prepared transaction window 1")
                && blocker.remedy.contains("commit prepared 'window 1'")
        });
    }
    assert!(named);
    shop.sql("commit prepared 'window 1'").await;
    assert_eq!(keys(&follower.drain_all().await), [1, 9]);
    assert_eq!(keys(&second_life.drain_all().await), [1, 9]);
}

#[tokio::test]
async fn whatever_order_transactions_commit_in_no_row_is_missed_with_a_buffer_of_milliseconds() {
    let shop = orders(&[]).await;
    let window = young(&shop).buffer(Duration::from_millis(5)).every(Duration::from_millis(1));
    let mut follower = Follower::open(window, Start::Beginning).await;
    let (url, writers) = (shop.place.url().to_owned(), 6);
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let url = url.clone();
        tasks.push(tokio::spawn(async move {
            let client = client(&url).await;
            for n in 0..40_i64 {
                let id = writer * 1000 + n;
                client.batch_execute("begin").await.unwrap();
                tokio::time::sleep(Duration::from_millis(fastrand(id) % 40)).await;
                client.batch_execute(&format!("insert into orders (id) values ({id})")).await.unwrap();
                tokio::time::sleep(Duration::from_millis(fastrand(id + 7) % 40)).await;
                client.batch_execute("commit").await.unwrap();
            }
        }));
    }
    let mut seen = Vec::new();
    while tasks.iter().any(|task| !task.is_finished()) {
        seen.extend(follower.read().await.0);
    }
    for task in tasks {
        task.await.unwrap();
    }
    seen.extend(follower.drain_all().await);
    assert!(seen.is_sorted_by_key(|change| change.at), "in the order of their moments");
    let unique: HashSet<i64> = seen.iter().map(key).collect();
    assert_eq!((seen.len(), unique.len()), (240, 240));
}

/// A number that looks like any other.
fn fastrand(seed: i64) -> u64 {
    (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
}

#[tokio::test]
async fn a_clock_of_whole_seconds_is_waited_for_until_its_next_tick() {
    for (of, unit) in [("timestamptz(0)", None), ("bigint", Some(seriatim_postgres::Unit::Seconds))] {
        let now = if unit.is_some() {
            "extract(epoch from clock_timestamp())::bigint"
        } else {
            "clock_timestamp()"
        };
        let shop =
            Shop::with(&format!("create table orders (id bigint primary key, at {of} default {now})")).await;
        let window = shop.source().window("orders", "at").buffer(Duration::from_millis(5));
        let window = unit.into_iter().fold(window.every(Duration::from_millis(1)), WindowCapture::unit);
        let mut follower = Follower::open(window, Start::Beginning).await;
        let mut seen = Vec::new();
        // Descending keys: within one tick, a later row comes before the place of an earlier one.
        for id in (1..300).rev() {
            shop.sql(&format!("insert into orders (id) values ({id})")).await;
            seen.extend(keys(&follower.read().await.0));
        }
        seen.extend(keys(&follower.drain_all().await));
        seen.sort_unstable();
        assert_eq!(seen, (1..300).collect::<Vec<_>>(), "{of}");
    }
}

#[tokio::test]
async fn a_row_that_never_rests_comes_within_a_bound_and_no_version_comes_twice() {
    let shop = orders(&[]).await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    let (began, mut changes, mut writes) = (clock::now(), Vec::new(), 0);
    let patience = Duration::from_millis(500);
    while began.elapsed() < 8 * patience {
        touch(&shop, 1).await;
        touch(&shop, 1000 + writes).await;
        writes += 1;
        changes.extend(follower.read().await.0);
    }
    let hot = changes.iter().filter(|change| key(change) == 1).count();
    assert!((2..=8).contains(&hot), "about every second look, not {hot} times in eight");
    assert!(changes.len() as i64 > writes / 2, "everything else goes on");
    // It comes to rest.
    changes.extend(follower.drain_all().await);
    let versions: HashSet<u64> = changes.iter().map(|change| change.id).collect();
    assert_eq!(versions.len(), changes.len(), "no version twice");
    let positions: HashSet<String> = changes.iter().map(|change| change.position.to_string()).collect();
    assert_eq!(positions.len(), changes.len(), "each at a position of its own");
    let last = changes.iter().rev().find(|change| key(change) == 1).unwrap();
    let stored =
        shop.number("select (extract(epoch from updated_at) * 1000000)::bigint from orders where id = 1");
    assert_eq!(last.at.as_microsecond(), stored.await);
    let mut others = keys(&changes);
    others.retain(|key| *key >= 1000);
    assert_eq!(others, (1000..1000 + writes).collect::<Vec<_>>());
    assert!(!follower.position().contains("early"), "{}", follower.position());
}

#[tokio::test]
async fn a_row_that_never_rests_comes_also_while_a_long_transaction_holds_the_window() {
    let shop = orders(&[]).await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    let long = shop.place.client().await;
    long.batch_execute("begin; select 1").await.unwrap();
    let began = clock::now();
    let mut changes = Vec::new();
    while changes.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "it starves");
        touch(&shop, 1).await;
        changes.extend(follower.read().await.0);
    }
    assert!(follower.position().contains(" early="), "{}", follower.position());
    let position = follower.cursors[0].after.clone();
    long.batch_execute("rollback").await.unwrap();
    let mut next_life = Follower::at(young(&shop), &position);
    assert!(next_life.drain_all().await.is_empty(), "it came to rest in what was delivered");
}

#[tokio::test]
async fn a_clock_that_was_set_back_stops_the_feed_instead_of_losing_what_is_written() {
    let shop = orders(&[10]).await;
    let passed = seriatim::Position::text("2999-01-01T00:00:00Z [7]");
    let mut follower = Follower::at(young(&shop), &passed);
    let said = follower.try_read().await.unwrap_err().to_string();
    assert!(
        said.contains("the clock was set back") && said.contains("seriatim rewind orders --to TIME"),
        "{said}"
    );
}

#[tokio::test]
async fn a_server_that_comes_back_is_read_on() {
    let shop = orders(&[10]).await;
    let mut follower = Follower::open(young(&shop), Start::Beginning).await;
    assert_eq!(keys(&follower.drain().await), [1]);
    shop.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()").await;
    touch(&shop, 2).await;
    let seen = std::sync::Mutex::new(Vec::new());
    let follower = tokio::sync::Mutex::new(follower);
    until("the row comes", || async {
        if let Ok((changes, _)) = follower.lock().await.try_read().await {
            seen.lock().unwrap().extend(keys(&changes));
        }
        *seen.lock().unwrap() == [2]
    })
    .await;
}
