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
        assert_eq!((scene.work.total(), scene.parked().await), (0, vec![]), "{kind:?}: nothing is parked");
        let calls = scene.work.calls.load(Ordering::Relaxed);
        assert!(calls < 20, "{kind:?}: {calls} calls in a minute; one at a time finds out");
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
        let given_up = parked.iter().filter(|object| object.failure.state == ParkedState::Parked).count();
        assert_eq!(given_up, 0, "{kind:?}: nobody is parked");
        assert!(parked.len() < 1_500, "{kind:?}: {} had to step aside", parked.len());
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
