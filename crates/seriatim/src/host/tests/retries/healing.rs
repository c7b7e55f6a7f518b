//! What is parked and tried again by itself.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

async fn next_try(scene: &Scene) -> i64 {
    let object = scene.parked().await.remove(0);
    (object.failure.next_try.unwrap() - clock::wall()).get_seconds()
}

#[tokio::test(start_paused = true)]
async fn a_parked_object_is_tried_again_after_pauses_that_double() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("not yet"));
        scene.push(7, 1);
        let host = scene.run("a");
        scene.until_parked(7).await;
        for (minutes, tries) in [(1, 1), (2, 2), (4, 3)] {
            assert_eq!(scene.work.calls.load(Ordering::Relaxed), tries, "{kind:?}");
            let next = next_try(&scene).await;
            assert!((minutes * 60 - 3..=minutes * 60).contains(&next), "{kind:?}: {next} s");
            scene
                .until("it is tried again", async |scene: &Scene| {
                    scene.work.calls.load(Ordering::Relaxed) == tries + 1
                })
                .await;
            scene.until_parked(7).await;
        }
        scene.push(7, 2);
        scene.work.recovers();
        scene.until("it is handled with its tail", async |scene: &Scene| scene.work.ids(7) == [1, 2]).await;
        scene.until("nothing is left", async |scene: &Scene| scene.parked().await.is_empty()).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_tries_it_at_the_same_time() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("not yet"));
        scene.push(7, 1);
        let host = scene.run("a");
        scene.until_parked(7).await;
        host.crash().await;
        let host = scene.run("b");
        tokio::time::sleep(MINUTE / 2).await;
        assert_eq!(scene.work.calls.load(Ordering::Relaxed), 1, "{kind:?}: not before");
        scene.work.recovers();
        tokio::time::sleep(MINUTE).await;
        assert_eq!(scene.work.ids(7), [1], "{kind:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_to_people_is_not_tried_again() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.heal = None;
        scene.work.falls_ill(7, || Failure::poison("never"));
        scene.push(7, 1);
        let host = scene.run("a");
        scene.until_parked(7).await;
        tokio::time::sleep(MINUTE * 10).await;
        assert_eq!(scene.work.calls.load(Ordering::Relaxed), 1, "{kind:?}");
        assert_eq!(scene.parked().await[0].failure.next_try, None);
        host.stop().await;
    }
}

/// A thousand objects with one error: a target that is still ill is not stormed, and one that is well gets all of them.
#[tokio::test(start_paused = true)]
async fn a_thousand_parked_objects_do_not_storm_a_target_and_follow_the_first_that_succeeds() {
    for kind in BOTH {
        let scene = Scene::new(kind);
        (0..1_000).for_each(|key| scene.work.falls_ill(key, || Failure::poison("no such table 17")));
        (0..1_000).for_each(|n| scene.push(n, n));
        let host = scene.run("a");
        scene.until("all are parked", async |scene: &Scene| scene.given_up().await == 1_000).await;
        let calls = scene.work.calls.load(Ordering::Relaxed);
        tokio::time::sleep(MINUTE * 60).await;
        let probes = scene.work.calls.load(Ordering::Relaxed) - calls;
        assert!((30..=61).contains(&probes), "{kind:?}: {probes} probes in an hour");
        scene.work.recovers();
        let began = clock::now();
        scene.until("all are handled", async |scene: &Scene| scene.work.total() == 1_000).await;
        assert!(began.elapsed() < MINUTE * 3, "{kind:?}: {:?}", began.elapsed());
        scene.until("nothing is left", async |scene: &Scene| scene.parked().await.is_empty()).await;
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_end_tries_what_is_due() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.work.falls_ill(7, || Failure::poison("not yet"));
        scene.push(7, 1);
        scene.host("a").run_once().await.unwrap_err();
        scene.work.recovers();
        scene.host("a").run_once().await.unwrap_err();
        assert_eq!(scene.work.total(), 0, "{kind:?}: it is not due");
        // The time of day stands still here.
        scene.settings.heal = Some(Backoff { first: Duration::ZERO, longest: Duration::ZERO });
        scene.host("a").run_once().await.unwrap();
        assert_eq!(scene.work.ids(7), [1], "{kind:?}");
    }
}
