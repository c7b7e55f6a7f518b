//! Somebody sets the sequence of a journal's ids back.

use seriatim::change::Change;
use seriatim::source::{Feed, SourceError, Start};

use crate::journal_kit::{Follower, LIMIT, ORDERS, Shop, run};

/// A journal that has given the ids up to 20, all of them read.
async fn at_twenty() -> (Shop, Follower) {
    let shop = Shop::with(ORDERS).await;
    let mut follower = shop.follow(Start::Now).await;
    shop.sql("insert into orders select g, 0 from generate_series(1, 20) g").await;
    assert_eq!(follower.all().await.len(), 20);
    (shop, follower)
}

/// Reads until it is caught up, or cannot go on.
async fn all(follower: &mut Follower) -> Result<Vec<Change>, SourceError> {
    let mut all = Vec::new();
    loop {
        let (changes, caught_up) = follower.try_read(LIMIT).await?;
        all.extend(changes);
        if caught_up {
            return Ok(all);
        }
    }
}

/// Keeps the sequencer from setting things right in between.
const HOLD: &str = "select pg_advisory_lock(hashtextextended('seriatim.journal_tick', 0))";
const LET_GO: &str = "select pg_advisory_unlock_all()";

#[tokio::test]
async fn changes_that_got_ids_of_before_stop_the_feed() {
    for set_back in [
        "select setval('seriatim.journal_1_id', 1); update orders set amount = 1 where id = 7",
        "alter sequence seriatim.journal_1_id restart; update orders set amount = 1 where id = 7",
        // So many changes that the sequence is beyond the old ids again.
        "begin; select setval('seriatim.journal_1_id', 12); update orders set amount = 1; commit",
    ] {
        let (shop, mut follower) = at_twenty().await;
        for sql in [HOLD, set_back, LET_GO] {
            shop.sql(sql).await;
        }
        let error = all(&mut follower).await.map(|changes| changes.len()).unwrap_err().to_string();
        assert!(error.contains("journal_1_id") && error.contains("was set back"), "{set_back}: {error}");
        assert!(all(&mut follower).await.is_err(), "and it stays there");
        shop.sql("update orders set amount = 2 where id = 7").await;
        let position = follower.capture.rewind(&follower.consumer, &Start::Beginning).await.unwrap();
        follower.cursors.iter_mut().for_each(|cursor| cursor.after = position.clone());
        assert_eq!(all(&mut follower).await.unwrap().len(), 20, "all rows, as they are");
        shop.sql("update orders set amount = 3 where id = 7").await;
        let changes = all(&mut follower).await.unwrap();
        assert!(changes.len() == 1 && changes[0].id > 20, "{changes:?}");
    }
}

#[tokio::test]
async fn changes_that_got_ids_of_before_and_commit_late_stop_the_feed() {
    let (shop, mut follower) = at_twenty().await;
    let late = shop.session().await;
    shop.sql(HOLD).await;
    shop.sql("select setval('seriatim.journal_1_id', 12)").await;
    run(&late, "begin; update orders set amount = 1 where id = 7").await;
    shop.sql("select setval('seriatim.journal_1_id', 30); update orders set amount = 1 where id = 8").await;
    shop.sql(LET_GO).await;
    assert_eq!(all(&mut follower).await.unwrap().len(), 1);
    run(&late, "commit").await;
    let error = all(&mut follower).await.map(|changes| changes.len()).unwrap_err().to_string();
    assert!(error.contains("was set back"), "{error}");
}

#[tokio::test]
async fn ids_go_on_upwards_when_nothing_was_written_in_between() {
    let (shop, mut follower) = at_twenty().await;
    shop.sql("select setval('seriatim.journal_1_id', 1)").await;
    assert_eq!(all(&mut follower).await.unwrap(), []);
    shop.sql("update orders set amount = 1 where id = 7").await;
    let changes = all(&mut follower).await.unwrap();
    assert!(changes.len() == 1 && changes[0].id > 20, "{changes:?}");
}

#[tokio::test]
async fn whoever_begins_after_that_is_told_nothing_of_before() {
    let (shop, _follower) = at_twenty().await;
    shop.sql("select setval('seriatim.journal_1_id', 1)").await;
    let named = |name: &str| seriatim::FeedName::new(name).unwrap();
    let newcomer = shop.source().journal("orders").named(named("newcomer")).partitions(4);
    let mut newcomer = Follower::open(newcomer, Start::Now).await;
    shop.sql("update orders set amount = 1 where id = 7").await;
    let changes = all(&mut newcomer).await.unwrap();
    assert!(changes.len() == 1 && changes[0].id > 20, "{changes:?}");
}
