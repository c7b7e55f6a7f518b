//! An orderly end in the middle of things: nothing of what is done comes again.

use super::*;

/// Others overtake a slow object; what of it lies before what they have done is handled before the end.
#[tokio::test(start_paused = true)]
async fn what_lies_before_something_done_is_handled_before_the_end() {
    for kind in BOTH {
        let mut scene = Scene::new(kind);
        scene.settings.batch = 1;
        [SLOW, SLOW, SLOW, 2, 3, 4].into_iter().for_each(|key| scene.push(key, 0));
        let host = scene.run("a");
        let others = if kind == Kind::Plain { 3 } else { 1 };
        scene.until("others are done", async |scene: &Scene| scene.work.total() >= others).await;
        scene.push(SLOW, 1);
        host.stop().await;
        let ended = scene.work.total();
        scene.host("a").run_once().await.unwrap();
        let mut seen = scene.work.seen.lock().unwrap().clone();
        seen.sort_by_key(|(_, id)| *id);
        let all = [(SLOW, 1), (SLOW, 2), (SLOW, 3), (2, 4), (3, 5), (4, 6), (SLOW, 7)];
        assert_eq!(seen, all, "{kind:?}: {ended} when it ended");
        assert_eq!(scene.parked().await, []);
    }
}

/// What waits for an object that is just being retried is kept in the store, behind the rest of it.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_retried_object_does_not_make_others_come_again() {
    let mut scene = Scene::new(Kind::Plain);
    scene.settings.batch = 1;
    scene.work.falls_ill(SLOW, || Failure::poison("never"));
    scene.push(SLOW, 0);
    let host = scene.run("a");
    scene.until_parked(SLOW).await;
    scene.work.recovers();
    scene.retry_all().await;
    // It takes five seconds.
    tokio::time::sleep(Duration::from_secs(2)).await;
    [SLOW, 2].into_iter().for_each(|key| scene.push(key, 1));
    scene.until("another one is done", async |scene: &Scene| scene.work.total() >= 1).await;
    assert_eq!(scene.work.ids(SLOW), [0; 0], "it is still at it");
    host.stop().await;
    scene.host("a").run_once().await.unwrap();
    let mut seen = scene.work.seen.lock().unwrap().clone();
    seen.sort_by_key(|(_, id)| *id);
    assert_eq!(seen, [(SLOW, 1), (SLOW, 2), (2, 3)]);
}

/// A target that is away is not waited for.
#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_target_that_is_away_when_it_ends() {
    let mut scene = Scene::new(Kind::Plain);
    scene.settings.batch = 1;
    scene.work.falls_ill(SLOW, || Failure::target("down"));
    [SLOW, SLOW, 2].into_iter().for_each(|key| scene.push(key, 0));
    let host = scene.run("a");
    scene.until("it was tried", async |scene: &Scene| scene.work.calls.load(Ordering::Relaxed) >= 2).await;
    let asked = clock::now();
    host.stop().await;
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    scene.work.recovers();
    scene.host("a").run_once().await.unwrap();
    assert_eq!(scene.work.ids(SLOW), [1, 2]);
}
