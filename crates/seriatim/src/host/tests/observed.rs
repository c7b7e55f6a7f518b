//! What observers are told, and that nothing they do matters.

use super::{History, feed, host, noting, quick, spawn, until};
use crate::change::Change;
use crate::host::*;
use crate::lease::Lease;
use crate::store::MemoryStore;
use async_trait::async_trait;

/// Notes all that it is told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: String) -> Observed {
        self.0.lock().unwrap().push(note);
        Ok(())
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, word: &str) -> usize {
        self.all().iter().filter(|note| note.starts_with(word)).count()
    }
}

#[async_trait]
impl Observer for Notes {
    async fn opened(&self, lease: &Lease) -> Observed {
        self.add(format!("opened {}", lease.id))
    }
    async fn changes(&self, lease: &Lease, changes: &[Change]) -> Observed {
        self.add(format!("changes {} {}", lease.id, changes.len()))
    }
    async fn closed(&self, lease: &Lease, reason: &CloseReason) -> Observed {
        self.add(format!("closed {} {reason:?}", lease.id))
    }
    async fn acquired(&self, lease: &Lease) -> Observed {
        self.add(format!("acquired {}", lease.id))
    }
    async fn renewed(&self, lease: &Lease) -> Observed {
        self.add(format!("renewed {}", lease.id))
    }
    async fn lost(&self, lease: &Lease, why: &str) -> Observed {
        self.add(format!("lost {} {why}", lease.id))
    }
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_what_is_opened_what_comes_and_why_it_is_closed() {
    let (store, feed, history, notes) = (MemoryStore::new(), feed(1), History::default(), Notes::default());
    let (stop, running) = spawn(host("a", &store, &feed, noting(&history), quick()).observer(notes.clone()));
    feed.push(1, 1);
    until("it is handled", || history.total() == 1).await;
    until("it is renewed", || notes.count("renewed f/0") > 0).await;
    stop.notify_one();
    running.await.unwrap().unwrap();
    let told = |note: &String| !note.starts_with("acquired") && !note.starts_with("renewed");
    let notes: Vec<String> = notes.all().into_iter().filter(told).collect();
    assert_eq!(notes, ["opened f/0", "changes f/0 1", "closed f/0 ShutDown"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_handed_over_says_to_whom() {
    let (store, feed, history, notes) = (MemoryStore::new(), feed(2), History::default(), Notes::default());
    let (_stop, _a) = spawn(host("a", &store, &feed, noting(&history), quick()).observer(notes.clone()));
    until("a has both", || notes.count("opened") == 2).await;
    let (_stop, _b) = spawn(host("b", &store, &feed, noting(&history), quick()));
    until("one is closed", || notes.count("closed") == 1).await;
    assert!(
        notes.all().contains(&r#"closed f/1 HandedOver { to: HostName("b") }"#.to_owned()),
        "{:?}",
        notes.all()
    );
    assert_eq!(notes.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_away_is_told_as_lost() {
    let (store, feed, history, notes) = (MemoryStore::new(), feed(1), History::default(), Notes::default());
    let (_stop, _a) = spawn(host("a", &store, &feed, noting(&history), quick()).observer(notes.clone()));
    until("a has it", || notes.count("opened") == 1).await;
    let lease = store.view(&[FeedName::new("f").unwrap()]).await.unwrap().leases.remove(0);
    store.rewind(&lease, &lease.position, crate::store::OnRewind::KeepParked).await.unwrap();
    until("it is told", || notes.count("lost f/0") == 1).await;
    assert!(notes.all().iter().any(|note| note.starts_with("closed f/0 Lost")), "{:?}", notes.all());
    until("it is taken again", || notes.count("opened") == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_has_to_stop_closes_all_its_partitions_with_the_reason() {
    let (store, feed, notes) = (MemoryStore::new(), feed(2), Notes::default());
    let settings = FeedSettings {
        retry: crate::handler::Retry { attempts: 1, then: crate::handler::Then::Stop, ..Default::default() },
        ..quick()
    };
    feed.push(1, 1);
    let failing =
        |_: Change, _: crate::handler::Context| async { Err::<(), _>(crate::handler::Failure::change("no")) };
    let ran = host("a", &store, &feed, failing, settings).observer(notes.clone()).run_once().await;
    assert!(matches!(ran, Err(HostError::Stopped(_))), "{ran:?}");
    assert_eq!(notes.count("closed f/0 Failed") + notes.count("closed f/1 Failed"), 2, "{:?}", notes.all());
}

/// Panics, fails or hangs in everything that it is told.
struct Bad(usize);

impl Bad {
    async fn behave(&self) -> Observed {
        match self.0 {
            0 => Err("an error".into()),
            1 => panic!("a panic"),
            _ => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Observer for Bad {
    async fn opened(&self, _: &Lease) -> Observed {
        self.behave().await
    }
    async fn changes(&self, _: &Lease, _: &[Change]) -> Observed {
        self.behave().await
    }
    async fn closed(&self, _: &Lease, _: &CloseReason) -> Observed {
        self.behave().await
    }
    async fn acquired(&self, _: &Lease) -> Observed {
        self.behave().await
    }
    async fn renewed(&self, _: &Lease) -> Observed {
        self.behave().await
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_an_observer_does_stops_the_host() {
    for bad in 0..3 {
        let (store, feed, history) = (MemoryStore::new(), feed(4), History::default());
        let observed = host("a", &store, &feed, noting(&history), quick()).observer(Bad(bad));
        let (stop, running) = spawn(observed);
        for n in 0..20 {
            feed.push(n, n);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        until("all is handled", || history.total() == 20).await;
        stop.notify_one();
        running.await.unwrap().unwrap();
        history.assert_each_key_once_in_order();
        let view = store.view(&[FeedName::new("f").unwrap()]).await.unwrap();
        assert!(view.leases.iter().all(|lease| lease.owner.is_none() && lease.epoch.0 == 1), "{view:?}");
    }
}
