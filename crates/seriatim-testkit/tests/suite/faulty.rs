//! The faulty store fails as it was told to.

use std::sync::Arc;
use std::time::Duration;

use seriatim::store::{JoinError, StoreError};
use seriatim::{FeedName, HostName, MemoryStore, Position, Store};
use seriatim_testkit::FaultyStore;
use seriatim_testkit::faulty::{Fault, Odds, Operation};

const EXPIRE: Duration = Duration::from_secs(10);

fn faulty() -> (FaultyStore, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    (FaultyStore::new(store.clone()), store)
}

fn host() -> HostName {
    HostName::new("ada").unwrap()
}

#[tokio::test]
async fn a_call_that_fails_before_did_not_happen() {
    let (faulty, store) = faulty();
    faulty.next(Operation::Join, Fault::Before);
    let failed = faulty.join(&host(), &[], EXPIRE, None).await;
    assert!(matches!(failed, Err(JoinError::Store(StoreError::Unavailable { .. }))), "{failed:?}");
    assert_eq!(store.view(&[]).await.unwrap().hosts, []);
    faulty.join(&host(), &[], EXPIRE, None).await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_belongs_to_a_call_that_happened() {
    let (faulty, store) = faulty();
    faulty.next(Operation::Join, Fault::After);
    assert!(faulty.join(&host(), &[], EXPIRE, None).await.is_err());
    assert_eq!(store.view(&[]).await.unwrap().hosts.len(), 1);
    // Asking again names the session that the lost answer was about, which can then be replaced.
    let Err(JoinError::NameTaken { session, .. }) = faulty.join(&host(), &[], EXPIRE, None).await else {
        panic!("the name should be taken")
    };
    faulty.join(&host(), &[], EXPIRE, Some((&session, 0))).await.unwrap();
}

#[tokio::test]
async fn a_held_call_happens_when_it_is_let_go() {
    let (faulty, store) = faulty();
    let hold = faulty.hold(Operation::Ensure);
    let feed = FeedName::new("totals").unwrap();
    let ensuring = {
        let feed = feed.clone();
        tokio::spawn(async move { faulty.ensure(&feed, 1, &Position::number(0)).await })
    };
    hold.reached().await;
    assert_eq!(store.feeds().await.unwrap(), []);
    hold.release();
    ensuring.await.unwrap().unwrap();
    assert_eq!(store.feeds().await.unwrap(), [feed]);
}

#[tokio::test]
async fn a_store_that_is_cut_off_comes_back() {
    let (faulty, _) = faulty();
    faulty.cut_off();
    assert!(faulty.feeds().await.is_err());
    assert!(faulty.identity().await.is_err());
    faulty.heal();
    faulty.feeds().await.unwrap();
    assert_eq!(faulty.calls(Operation::Feeds), 2);
}

#[tokio::test]
async fn one_seed_plays_the_same_faults_again() {
    let odds = Odds { before: 0.3, after: 0.3, slow: 0.0, delay: std::time::Duration::ZERO };
    let mut histories = Vec::new();
    for _ in 0..2 {
        let (faulty, _) = faulty();
        faulty.at_random(42, odds);
        let mut history = Vec::new();
        for _ in 0..50 {
            history.push(faulty.feeds().await.is_ok());
        }
        histories.push(history);
    }
    assert_eq!(histories[0], histories[1]);
    assert!(histories[0].contains(&true) && histories[0].contains(&false));
}
