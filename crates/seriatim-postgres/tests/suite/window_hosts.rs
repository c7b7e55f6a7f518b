//! Windows in hosts: exactly once where the effect is in the store, and one owner at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::{Change, Context, Failure, Host};
use seriatim_postgres::{PostgresStore, SqlEffect, WindowCapture, in_transaction};

use crate::log_kit::Shop;
use crate::support::until;
use crate::window_kit::{key, orders, touch};

fn window(shop: &Shop) -> WindowCapture {
    let window = shop.source().window("orders", "updated_at");
    window.buffer(Duration::from_millis(20)).every(Duration::from_millis(5))
}

async fn store(shop: &Shop) -> PostgresStore {
    PostgresStore::connect(shop.place.url()).await.unwrap()
}

#[tokio::test]
async fn the_effect_of_each_version_happens_exactly_once() {
    let shop = orders(&[]).await;
    shop.sql(
        "create table told (id bigint, at timestamptz, primary key (id, at));
         create table counts (id bigint primary key, n int)",
    )
    .await;
    let effect = "insert into told values (:key_id, :new_updated_at);
                  insert into counts as c values (:key_id, 1) on conflict (id) do update set n = c.n + 1";
    for round in 0..5 {
        for id in (1..=20).filter(|id| (id + round) % 3 != 0) {
            touch(&shop, id).await;
        }
        let store = store(&shop).await;
        let types = window(&shop).column_types().await.unwrap();
        let effect = SqlEffect::new(effect, None).with_types(store.database(), &types).await.unwrap();
        let handling = Handling::ExactlyOnce(Arc::new(in_transaction(&store, effect)));
        let settings = FeedSettings { batch: 3, ..FeedSettings::default() };
        let host = Host::new("a", Arc::new(store)).feed_with(Arc::new(window(&shop)), handling, settings);
        host.run_once().await.unwrap();
    }
    let missing = "select count(*) from orders o where not exists (select 1 from told t where t.id = o.id and t.at = o.updated_at)";
    assert_eq!(shop.number(missing).await, 0);
    let twice = "select (select sum(n) from counts) - (select count(*) from told)";
    assert_eq!(shop.number(twice).await, 0);
}

/// A host that notes what it handles, and stops when the other end is dropped.
async fn host(
    shop: &Shop,
    name: &'static str,
    seen: &Arc<Mutex<Vec<(String, i64)>>>,
) -> (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let seen = Arc::clone(seen);
    let note = move |change: Change, _: Context| {
        seen.lock().unwrap().push((name.to_owned(), key(&change)));
        async { Ok::<(), Failure>(()) }
    };
    let host = Host::new(name, Arc::new(store(shop).await)).feed(window(shop), note);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = async move { host.run_until(async move { drop(stopped.await) }).await.unwrap() };
    (stop, tokio::spawn(run))
}

#[tokio::test]
async fn of_two_hosts_one_works_and_the_other_takes_over() {
    let shop = orders(&[]).await;
    let seen: Arc<Mutex<Vec<(String, i64)>>> = Arc::default();
    let all_seen = async |count: usize| {
        until("all are handled", || async { seen.lock().unwrap().len() >= count }).await;
    };
    let (first, second) = (host(&shop, "a", &seen).await, host(&shop, "b", &seen).await);
    for id in 1..=30 {
        touch(&shop, id).await;
    }
    all_seen(30).await;
    let owner = seen.lock().unwrap()[0].0.clone();
    let (leaving, staying) = if owner == "a" { (first, second) } else { (second, first) };
    drop(leaving.0);
    leaving.1.await.unwrap();
    for id in 31..=60 {
        touch(&shop, id).await;
    }
    all_seen(60).await;
    drop(staying.0);
    staying.1.await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().map(|(_, key)| *key).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    assert!(seen[..30].iter().all(|(host, _)| *host == owner), "one of them did the first half");
    assert!(seen[30..].iter().all(|(host, _)| *host != owner), "the other one the rest");
}
