//! Targets that are away, and objects that are bad: which is which.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_is_waited_for_and_everybody_can_see_it() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.retry.backoff.longest = Duration::from_secs(30);
        (0..500).for_each(|key| scene.work.falls_ill(key, || Failure::target("connection refused")));
        (0..500).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((scene.work.total(), scene.given_up().await), (0, 0), "{kind:?}: nothing is parked");
        let calls = scene.work.calls.load(Ordering::Relaxed);
        // Four at once find it away. Then one at a time: six in growing pauses, and eleven that are five seconds apart.
        assert!(calls <= 4 + 6 + 11, "{kind:?}: {calls} calls in a minute; one at a time finds out");
        let aside = scene.parked().await.len() as u64;
        assert!(aside < calls, "{kind:?}: {aside} had to step aside, so that others find out");
        let troubles = scene.troubles().await;
        assert!(troubles.len() == 1 && troubles[0].ends_with("connection refused"), "{troubles:?}");
        scene.work.recovers();
        scene.until("it goes on by itself", async |scene: &Scene| scene.work.total() == 500).await;
        scene.until("and says so", async |scene: &Scene| scene.troubles().await.is_empty()).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_everything_fails_it_is_not_the_objects() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..5_000).for_each(|key| scene.work.falls_ill(key, || Failure::change("internal server error")));
        (0..5_000).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let parked = scene.parked().await;
        assert_eq!(scene.given_up().await, 0, "{kind:?}: nobody is parked");
        assert!(parked.len() < 100, "{kind:?}: {} had to step aside", parked.len());
        assert!(scene.troubles().await[0].ends_with("internal server error"));
        scene.work.recovers();
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 5_000).await;
        scene.until("nothing is left", async |scene: &Scene| scene.parked().await.is_empty()).await;
        assert_eq!(scene.work.seen.lock().unwrap().iter().collect::<HashSet<_>>().len(), 5_000);
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_bad_objects_in_a_row_are_parked_once_good_ones_come() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..300).for_each(|key| scene.work.falls_ill(key, || Failure::change("bad")));
        (0..600).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        scene.until("the good ones are handled", async |scene: &Scene| scene.work.total() == 300).await;
        scene
            .until("the bad ones are parked", async |scene: &Scene| {
                let parked = scene.parked().await;
                parked.len() == 300 && parked.iter().all(|object| object.failure.state == ParkedState::Parked)
            })
            .await;
        host.stop().await;
    }
}

/// At low traffic, each object may have used up its attempts before the next one fails.
#[tokio::test(start_paused = true)]
async fn what_was_parked_before_the_target_was_known_to_be_away_is_released_with_it() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.heal = None;
        (0..10).for_each(|key| scene.work.falls_ill(key, || Failure::change("internal server error")));
        let host = scene.run("a");
        for key in 0..10 {
            scene.push(key, key);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert!((1..=3).contains(&scene.given_up().await), "{kind:?}: {}", scene.given_up().await);
        scene.work.recovers();
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 10).await;
        scene.until("nothing is left", async |scene: &Scene| scene.parked().await.is_empty()).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_bad_objects_in_a_row_hold_nobody_with_one_call_at_a_time() {
    for kind in BOTH {
        for illness in [|| Failure::change("bad"), (|| Failure::target("busy")) as Illness] {
            let mut scene = Scene::new(kind);
            (scene.settings.concurrency, scene.settings.batch) = (1, 1);
            (0..5).for_each(|key| scene.work.falls_ill(key, illness));
            (0..20).for_each(|n| scene.push(n, n));
            let (began, host) = (clock::now(), scene.run("a"));
            scene.until("the good ones are handled", async |scene: &Scene| scene.work.total() == 15).await;
            assert!(began.elapsed() < Duration::from_secs(30), "{kind:?}: {:?}", began.elapsed());
            scene.until("the bad ones are parked", async |scene: &Scene| scene.given_up().await == 5).await;
            scene.until("the target is there", async |scene: &Scene| scene.troubles().await.is_empty()).await;
            host.stop().await;
        }
    }
}

/// They may be all that comes: reading goes on, and the first good one is handled soon.
#[tokio::test(start_paused = true)]
async fn a_good_object_among_bad_ones_alone_ends_the_wait() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..3).for_each(|key| scene.work.falls_ill(key, || Failure::change("bad")));
        (0..3).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(scene.given_up().await, 0, "{kind:?}: it may be the target");
        scene.push(7, 7);
        scene.until("the good one is handled", async |scene: &Scene| scene.work.total() == 1).await;
        scene.until("the bad ones are parked", async |scene: &Scene| scene.given_up().await == 3).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_end_gives_up_on_a_target_that_is_away() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..3).for_each(|key| scene.work.falls_ill(key, || Failure::target("connection refused")));
        (0..3).for_each(|n| scene.push(n, n));
        let began = clock::now();
        let said = scene.host("a").run_once().await.unwrap_err().to_string();
        assert!(said.contains("nothing has moved for 5m") && said.contains("connection refused"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(660), "{:?}", began.elapsed());
        let (began, within) = (clock::now(), Patience::Within(Duration::from_secs(10)));
        let said = scene.host("a").patience(within).run_once().await.unwrap_err().to_string();
        assert!(said.contains("not everything is handled within 10s"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        scene.work.recovers();
        scene.host("a").run_once().await.unwrap();
        assert_eq!(scene.work.total(), 3, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_end_tells_what_is_parked() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.heal = None;
        scene.work.falls_ill(7, || Failure::poison("never"));
        scene.push(7, 1);
        scene.push(8, 1);
        for _ in 0..2 {
            let said = scene.host("a").run_once().await.unwrap_err().to_string();
            assert_eq!(said, "feed f: 1 object is parked", "{kind:?}");
        }
    }
}
