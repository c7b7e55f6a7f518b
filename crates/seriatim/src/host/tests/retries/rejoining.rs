//! What stepped aside, is tried again and meets the live stream.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_that_is_tried_again_and_again_delays_no_other() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.attempts = u32::MAX;
        scene.settings.retry.backoff.first = Duration::from_secs(1);
        scene.work.falls_ill(7, || Failure::change("not yet"));
        for n in 0..2_000 {
            scene.feed.push(if n % 2 == 0 { 7 } else { 100 + n % 50 }, n);
        }
        let (host, began) = (scene.run("a"), clock::now());
        scene.until("all others are handled", async |scene: &Scene| scene.work.total() == 1_000).await;
        let took = clock::now() - began;
        assert!(took < Duration::from_secs(3), "{kind:?}: {took:?}; the key's own pauses are seconds each");
        scene
            .until("the key waits in the store", async |scene: &Scene| {
                scene.parked().await.first().is_some_and(|object| object.waiting == 1_000)
            })
            .await;
        let object = scene.parked().await.remove(0);
        assert_eq!(object.failure.state, ParkedState::Retrying, "{kind:?}: it is not given up");
        let position =
            scene.store.view(&[scene.feed.name().clone()]).await.unwrap().leases[0].position.clone();
        assert_eq!(position.as_number(), Some(2_000), "{kind:?}: the checkpoint does not wait for it");
        scene.work.recovers();
        scene.until("it comes back by itself", async |scene: &Scene| scene.parked().await.is_empty()).await;
        host.stop().await;
        let ids = scene.work.ids(7);
        assert!(ids.is_sorted_by(|a, b| a < b) && ids.len() == 1_000, "{kind:?}: in order, once each");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_object_meets_the_live_stream_while_its_changes_arrive() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        let host = scene.run("a");
        scene.feed.push(7, 0);
        scene.until_parked(7).await;
        assert_eq!(scene.parked().await[0].failure.attempts, 3, "{kind:?}: attempts count all tries");
        for n in 0..500 {
            scene.feed.push(7, n);
        }
        scene.work.recovers();
        scene.retry_all().await;
        let mut pushed = 501;
        for n in 0..2_000 {
            scene.feed.push(if n % 3 == 0 { 8 } else { 7 }, n);
            pushed += usize::from(n % 3 != 0);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        scene.until("all is handled", async |scene: &Scene| scene.work.ids(7).len() >= pushed).await;
        scene.until("nothing is parked", async |scene: &Scene| scene.parked().await.is_empty()).await;
        let ids = scene.work.ids(7);
        assert!(ids.is_sorted_by(|a, b| a < b), "{kind:?}: no gap, no overtaking, no double");
        assert_eq!((ids.len(), scene.work.ids(8).len()), (pushed, 667));
        let calls = scene.work.calls.load(Ordering::Relaxed);
        scene.feed.push(7, 1);
        scene.until("it is live again", async |scene: &Scene| scene.work.ids(7).len() == pushed + 1).await;
        assert_eq!(scene.work.calls.load(Ordering::Relaxed), calls + 1, "{kind:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_survives_the_crash_of_its_host() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        let first = scene.run("a");
        (0..50).for_each(|n| scene.push(7, n));
        scene.until("it was tried", async |scene: &Scene| !scene.parked().await.is_empty()).await;
        first.crash().await;
        let second = scene.run("b");
        scene.until_parked(7).await;
        assert_eq!(scene.parked().await[0].failure.attempts, 3, "{kind:?}: attempts before the crash count");
        second.crash().await;
        scene.work.recovers();
        scene.retry_all().await;
        let third = scene.run("c");
        scene.until("all is handled", async |scene: &Scene| scene.parked().await.is_empty()).await;
        third.stop().await;
        assert_eq!(scene.work.ids(7), (1..=50).collect::<Vec<u64>>(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_once_ends_when_what_stepped_aside_is_handled_or_parked() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..30).for_each(|n| scene.push(7 + n % 3, n));
        scene.host("a").run_once().await.unwrap_err();
        assert_eq!(scene.work.total(), 20);
        let object = scene.parked().await.remove(0);
        assert_eq!((object.waiting, object.failure.attempts), (10, 3), "{kind:?}");
        assert_eq!(object.failure.state, ParkedState::Parked);
        scene.work.recovers();
        scene.retry_all().await;
        scene.host("a").run_once().await.unwrap();
        assert_eq!((scene.work.ids(7).len(), scene.parked().await.len()), (10, 0), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_host_what_is_marked_is_tried_and_nothing_else() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("no"));
        (0..3).for_each(|n| scene.push(7, n));
        scene.host("a").run_once().await.unwrap_err();
        scene.work.recovers();
        scene.feed.push(8, 1);
        scene.retry_all().await;
        let (stop, host) = (Arc::new(Notify::new()), scene.host("b"));
        let stopped = Arc::clone(&stop);
        let running =
            tokio::spawn(async move { host.run_parked_until(async move { stopped.notified().await }).await });
        scene.until("the tail is handled", async |scene: &Scene| scene.parked().await.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        stop.notify_one();
        running.await.unwrap().unwrap();
        assert_eq!((scene.work.ids(7), scene.work.ids(8)), (vec![1, 2, 3], vec![]), "{kind:?}");
        scene.host("c").run_once().await.unwrap();
        assert_eq!(scene.work.ids(8), [4], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_does_not_come_back_while_a_change_of_it_is_on_its_way_to_the_store() {
    let mut scene = Scene::new(Kind::Plain);
    scene.settings.batch = 1;
    scene.work.falls_ill(7, || Failure::poison("no"));
    scene.push(7, 0);
    let host = scene.run("a");
    scene.until_parked(7).await;
    scene.work.recovers();
    // The checkpoint cannot pass the slow change, nor what is set aside behind it.
    let a_moment = || tokio::time::sleep(Duration::from_millis(300));
    scene.push(SLOW, 0);
    a_moment().await;
    scene.push(7, 0);
    a_moment().await;
    scene.retry_all().await;
    scene.until("what is stored is handled", async |scene: &Scene| scene.work.ids(7) == [1]).await;
    a_moment().await;
    scene.push(7, 0);
    a_moment().await;
    assert_eq!(scene.work.ids(7), [1], "4 has not overtaken 3");
    scene.until("all is handled", async |scene: &Scene| scene.work.ids(7).len() == 3).await;
    assert_eq!(scene.work.ids(7), [1, 3, 4]);
    host.stop().await;
}

/// Draws a line after each commit: what is in the store then is all that a crash leaves.
#[tokio::test(start_paused = true)]
async fn what_is_set_aside_goes_with_the_first_commit_that_passes_it() {
    let mut scene = Scene::new(Kind::Transactional);
    scene.settings.retry.attempts = 1;
    scene.settings.batch = 8;
    scene.work.falls_ill(7, || Failure::poison("no"));
    scene.feed.push(7, 0);
    scene.host("a").run_once().await.unwrap_err();
    // In one batch: two poisons of their own that split it, and changes of 7 between all others.
    scene.work.falls_ill(1, || Failure::poison("no"));
    scene.work.falls_ill(2, || Failure::poison("no"));
    for key in [7, 3, 7, 1, 7, 4, 7, 2, 7, 5, 7, 6, 7] {
        scene.feed.push(key, 0);
    }
    let host = scene.run("b");
    let (mut states, key) = (BTreeSet::new(), Key::of("id", Value::Integer(7)));
    let began = clock::now();
    while clock::now() - began < Duration::from_secs(2) {
        let view = scene.store.view(&[scene.feed.name().clone()]).await.unwrap();
        let kept = scene.store.parked_changes(scene.feed.name(), &key, 99).await.unwrap();
        let ids: Vec<u64> = kept.iter().map(|change| change.id).collect();
        states.insert((view.leases[0].position.as_number().unwrap(), ids));
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    assert!(scene.work.total() == 4 && states.len() > 3, "{states:?}");
    host.stop().await;
    let all = [1, 2, 4, 6, 8, 10, 12, 14];
    for (position, kept) in states {
        let passed: Vec<u64> = all.into_iter().filter(|id| *id <= position).collect();
        assert_eq!(kept, passed, "at position {position}");
    }
}

/// What an operator asks for while the answer to a parking is on its way.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_before_the_host_knows_that_an_object_is_parked_is_heard() {
    let retry_or_discard = [None, Some(Discard::All(1))];
    for kind in BOTH {
        for ask in retry_or_discard {
            let (scene, mut slow) = (Scene::new(kind), crate::host::tests::odd::Odd::new());
            slow.inner = scene.store.clone();
            slow.slow_answer = Duration::from_secs(5);
            scene.work.falls_ill(7, || Failure::poison("no"));
            scene.feed.push(7, 0);
            let host = scene.run_on("a", Arc::new(slow));
            scene.until("it is parked", async |scene: &Scene| !scene.parked().await.is_empty()).await;
            scene.work.recovers();
            let object = scene.parked().await.remove(0);
            match ask {
                None => scene.retry_all().await,
                Some(what) => {
                    let feed = scene.feed.name().clone();
                    let done = scene.store.discard_parked(&feed, &object.key, what, "not needed").await;
                    assert_eq!(done.unwrap(), Discarding::Done(1));
                }
            }
            scene.until("nothing is parked", async |scene: &Scene| scene.parked().await.is_empty()).await;
            scene.feed.push(7, 1);
            scene.until("the object goes on", async |scene: &Scene| scene.work.ids(7).contains(&2)).await;
            host.stop().await;
        }
    }
}
