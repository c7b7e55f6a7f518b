//! How much may be parked.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_can_be_parked_is_bounded_and_the_partition_waits_with_a_reason() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.parked.object_changes = 200;
        scene.settings.retry.attempts = 1;
        scene.work.falls_ill(7, || Failure::change("no"));
        for n in 0..20_000 {
            scene.feed.push(if n % 2 == 0 { 7 } else { 8 }, n);
        }
        let host = scene.run("a");
        scene.until("it waits", async |scene: &Scene| !scene.troubles().await.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let waiting = scene.parked().await[0].waiting;
        assert!((200..5_000).contains(&waiting), "{kind:?}: {waiting}; what was in memory comes on top");
        let why = scene.troubles().await.remove(0);
        assert!(why.contains(r#"are kept of the parked object {"id":7}"#), "{why}");
        scene.work.recovers();
        scene.retry_all().await;
        scene.until("all is handled", async |scene: &Scene| scene.work.total() == 20_000).await;
        scene.until("it says so", async |scene: &Scene| scene.troubles().await.is_empty()).await;
        for key in [7, 8] {
            assert!(scene.work.ids(key).is_sorted_by(|a, b| a < b), "{kind:?}: {key}");
        }
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn run_once_that_can_park_no_more_fails_with_the_reason() {
    let mut scene = Scene::new(Kind::Transactional);
    scene.settings.parked.objects = 3;
    scene.settings.retry.attempts = 1;
    (0..9).for_each(|key| scene.work.falls_ill(key, || Failure::poison("no")));
    (0..20_000).for_each(|n| scene.push(n, n));
    let stopped = scene.host("a").run_once().await.unwrap_err().to_string();
    assert!(stopped.contains("cannot go on: 9 objects are parked, which is the most"), "{stopped}");
}
