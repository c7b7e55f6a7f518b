//! Windows in hosts: exactly once where the effect is in the store, and one owner at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim::clock;
use seriatim::handler::Handling;
use seriatim::host::FeedSettings;
use seriatim::{Change, Context, Failure, Host};
use seriatim_sqlite::{SqlEffect, SqliteStore, Unit, WindowCapture, in_transaction};

use crate::capture_kit::File;
use crate::window_kit::{NOW, key, orders};

fn in_ms(file: &File) -> WindowCapture {
    let window = file.source().window("orders", "updated_at").unit(Unit::Milliseconds);
    window.buffer(Duration::from_millis(100)).every(Duration::from_millis(5))
}

#[tokio::test]
async fn the_effect_of_each_version_happens_exactly_once() {
    let file = orders(&[]);
    file.sql("create table told (id integer, at integer, primary key (id, at)); create table counts (id integer primary key, n integer)");
    let effect = "insert into told values (:key_id, :new_updated_at);
                  insert into counts values (:key_id, 1) on conflict (id) do update set n = n + 1";
    for round in 0..5 {
        for id in 1..=20 {
            if (id + round) % 3 != 0 {
                file.sql(&format!("replace into orders values ({id}, 'r{round}', {NOW})"));
            }
        }
        let store = SqliteStore::open(&file.path()).await.unwrap();
        let handler = in_transaction(&store, SqlEffect::new(effect, None).into_fn());
        let settings = FeedSettings { batch: 3, ..FeedSettings::default() };
        let handling = Handling::ExactlyOnce(Arc::new(handler));
        Host::new("a", Arc::new(store))
            .feed_with(Arc::new(in_ms(&file)), handling, settings)
            .run_once()
            .await
            .unwrap();
    }
    assert_eq!(file.number("select count(*) from orders where not exists (select 1 from told where told.id = orders.id and told.at = orders.updated_at)"), 0);
    assert_eq!(file.number("select sum(n) from counts"), file.number("select count(*) from told"));
}

#[tokio::test]
async fn of_two_hosts_one_works_and_the_other_takes_over() {
    let file = orders(&[]);
    let seen: Arc<Mutex<Vec<(String, i64)>>> = Arc::default();
    let mut hosts = Vec::new();
    for name in ["a", "b"] {
        let store = SqliteStore::open(&file.path()).await.unwrap();
        let seen = Arc::clone(&seen);
        let note = move |change: Change, _: Context| {
            seen.lock().unwrap().push((name.to_owned(), key(&change)));
            async { Ok::<(), Failure>(()) }
        };
        let host = Host::new(name, Arc::new(store)).feed(in_ms(&file), note);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        hosts.push((stop, tokio::spawn(host.run_until(async move { drop(stopped.await) }))));
    }
    let mut hosts = hosts.into_iter();
    for id in 1..=60 {
        file.sql(&format!("insert into orders values ({id}, 'tea', {NOW})"));
        if id == 30 {
            let all_seen = |count| {
                let seen = Arc::clone(&seen);
                move || seen.lock().unwrap().len() >= count
            };
            until("the first half is handled", all_seen(30)).await;
            let owner = seen.lock().unwrap()[0].0.clone();
            let (first, second) = (hosts.next().unwrap(), hosts.next().unwrap());
            let (leaving, staying) = if owner == "a" { (first, second) } else { (second, first) };
            drop(leaving.0);
            leaving.1.await.unwrap().unwrap();
            hosts = vec![staying].into_iter();
        }
    }
    let count = {
        let seen = Arc::clone(&seen);
        move || seen.lock().unwrap().len() >= 60
    };
    until("all are handled", count).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().map(|(_, key)| *key).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    let owners: Vec<&String> = seen.iter().map(|(owner, _)| owner).collect();
    assert!(owners[..30].iter().all(|owner| *owner == owners[0]), "one of them did the first half");
    assert!(owners[30..].iter().all(|owner| *owner != owners[0]), "the other one the rest");
    for (stop, host) in hosts {
        drop(stop);
        host.await.unwrap().unwrap();
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
