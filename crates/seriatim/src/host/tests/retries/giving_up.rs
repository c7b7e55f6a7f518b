//! What is given up: skipped, discarded, stopped at.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_discarded_change_is_not_handled_and_its_tail_goes_on() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("never"));
        (0..5).for_each(|n| scene.push(7, n));
        let host = scene.run("a");
        scene.until_parked(7).await;
        scene.until("its tail is parked", async |scene: &Scene| scene.parked().await[0].waiting == 5).await;
        scene.work.recovers();
        let key = scene.parked().await[0].key.clone();
        let dropped = scene.store.discard_parked(scene.feed.name(), &key, Discard::First(1), "a test").await;
        assert_eq!(dropped.unwrap(), Discarding::Done(1));
        scene.until("the tail is handled", async |scene: &Scene| scene.work.ids(7).len() == 4).await;
        scene.feed.push(7, 9);
        scene.until("and what comes", async |scene: &Scene| scene.work.ids(7) == [2, 3, 4, 5, 6]).await;
        assert_eq!(scene.parked().await, []);
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_discarded_to_the_end_is_live_again() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("never"));
        (0..5).for_each(|n| scene.push(7, n));
        let host = scene.run("a");
        scene.until_parked(7).await;
        scene.until("its tail is parked", async |scene: &Scene| scene.parked().await[0].waiting == 5).await;
        scene.work.recovers();
        let key = scene.parked().await[0].key.clone();
        let dropped = scene.store.discard_parked(scene.feed.name(), &key, Discard::All(1), "a test").await;
        assert_eq!(dropped.unwrap(), Discarding::Done(5));
        for n in 0..20 {
            scene.feed.push(7, n);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        scene.until("what comes is handled", async |scene: &Scene| scene.work.ids(7).len() == 20).await;
        assert_eq!(scene.work.ids(7), (6..=25).collect::<Vec<u64>>(), "{kind:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_skipped_lets_its_tail_go_on_and_is_counted() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.then = Then::Skip;
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..4).for_each(|n| scene.push(7 + n % 2, n));
        let host = scene.host("a");
        let stats = Arc::clone(&host.stats()[0].1);
        host.run_once().await.unwrap();
        assert_eq!((stats.skipped(), stats.handled()), (2, 2), "{kind:?}");
        assert_eq!((scene.parked().await, scene.work.ids(8)), (vec![], vec![2, 4]));
    }
}

#[tokio::test(start_paused = true)]
async fn stop_comes_after_the_last_attempt_and_loses_nothing() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.then = Then::Stop;
        scene.work.falls_ill(7, || Failure::change("no"));
        (0..4).for_each(|n| scene.push(7, n));
        let stopped = scene.host("a").run_once().await.unwrap_err();
        assert_eq!(stopped.to_string(), "stopped: f: change 1 at position 1 failed: no", "{kind:?}");
        scene.work.recovers();
        scene.host("a").run_once().await.unwrap();
        assert_eq!(scene.work.ids(7), [1, 2, 3, 4], "{kind:?}");
    }
}

/// It has no object that could be parked, so the feed stops where somebody has to look; unless it is to be skipped.
#[tokio::test(start_paused = true)]
async fn a_change_of_everything_that_fails_stops_the_feed_or_is_skipped() {
    for (kind, then) in
        BOTH.into_iter().flat_map(|kind| [Then::Park, Then::Stop, Then::Skip].map(|then| (kind, then)))
    {
        let mut scene = Scene::new(kind);
        scene.settings.retry.then = then;
        scene.work.falls_ill(EVERYTHING, || Failure::change("no"));
        scene.push(7, 1);
        scene.feed.truncate();
        scene.push(7, 2);
        let ended = scene.host("a").run_once().await;
        let expected = match then {
            Then::Skip => None,
            _ => Some("stopped: f: change 2 at position 2 failed: no".to_owned()),
        };
        assert_eq!(ended.err().map(|error| error.to_string()), expected, "{kind:?} {then:?}");
        scene.work.recovers();
        scene.host("a").run_once().await.unwrap();
        let truncated: &[u64] = if then == Then::Skip { &[] } else { &[2] };
        assert_eq!(
            (scene.work.ids(7), scene.work.ids(EVERYTHING)),
            (vec![1, 3], truncated.to_vec()),
            "{kind:?} {then:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_everything_waits_for_what_is_parked_before_it() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("never"));
        scene.push(7, 1);
        scene.feed.truncate();
        scene.push(8, 1);
        let host = scene.run("a");
        scene.until_parked(7).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(scene.work.total(), 0, "{kind:?}");
        scene.work.recovers();
        scene.store.retry_parked(scene.feed.name(), None).await.unwrap();
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 3).await;
        assert_eq!(*scene.work.seen.lock().unwrap(), [(7, 1), (EVERYTHING, 2), (8, 3)], "{kind:?}");
        host.stop().await;
    }
}
