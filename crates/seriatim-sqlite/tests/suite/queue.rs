//! The queue keeps every promise of the contract, and producers push in their own transactions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::name::HostName;
use seriatim::name::ObjectName;
use seriatim::order::EventId;
use seriatim::queue::{Body, IfEventsWait, PushError, Queue, Removal, Take};
use seriatim_sqlite::SqliteQueue;
use seriatim_testkit::queue::QueueHarness;

use crate::support::File;

async fn queue(file: &File) -> SqliteQueue {
    SqliteQueue::open(&file.path(), &FeedName::new("works").unwrap()).await.unwrap()
}

#[async_trait]
impl QueueHarness for File {
    async fn open(&self) -> Arc<dyn Queue> {
        Arc::new(queue(self).await)
    }

    async fn with_limit(&self, limit: u64) -> Arc<dyn Queue> {
        Arc::new(queue(self).await.limited_to(limit))
    }
}

seriatim_testkit::queue_conformance!(File::new());

#[tokio::test]
async fn events_are_pushed_with_the_producers_write_or_not_at_all() {
    let file = File::new();
    let queue = queue(&file).await.limited_to(2);
    let mut connection = file.sqlite();
    connection.execute_batch("create table work (title text)").unwrap();
    for (title, commits) in [("Emma", true), ("Persuasion", false)] {
        let transaction = connection.transaction().unwrap();
        transaction.execute("insert into work values (?1)", [title]).unwrap();
        queue.push_in(&transaction, "work:1", &[Body::from(title)]).unwrap();
        if commits {
            transaction.commit().unwrap();
        }
    }
    assert_eq!(file.number("select count(*) from work"), 1);
    let work = ObjectName::new("work:1").unwrap();
    assert_eq!(queue.inspect(&work).await.unwrap().unwrap().waiting, 1);
    let transaction = connection.transaction().unwrap();
    let refused = queue.push_in(&transaction, "work:1", &[Body::from("a"), Body::from("b")]);
    assert!(matches!(refused, Err(PushError::Full { queued: 1, .. })), "{refused:?}");
}

#[tokio::test]
async fn two_queues_in_one_file_know_nothing_of_each_other() {
    let file = File::new();
    let works = queue(&file).await;
    let mails = SqliteQueue::open(&file.path(), &FeedName::new("mails").unwrap()).await.unwrap();
    works.push(&ObjectName::new("work:1").unwrap(), &[Body::from("a")]).await.unwrap();
    assert_eq!(mails.objects().await.unwrap(), []);
    assert_eq!(works.objects().await.unwrap().len(), 1);
}

/// A consumer's gate may remember the ids of the queue that was there before.
#[tokio::test]
async fn ids_and_epochs_go_on_upwards_when_a_queue_is_removed_and_made_again() {
    let file = File::new();
    let work = ObjectName::new("work:1").unwrap();
    for round in 1..=3 {
        let queue = queue(&file).await;
        queue.push(&work, &[Body::from("a")]).await.unwrap();
        let ada = queue.join(&HostName::new("ada").unwrap(), Duration::from_secs(10), None).await.unwrap();
        let Take::Taken(taken) = queue.take(&ada, 1).await.unwrap() else { panic!("an event waits") };
        assert_eq!((taken.events[0].id(), taken.hold.epoch.0), (EventId(round), round));
        assert_eq!(queue.remove(IfEventsWait::Drop).await.unwrap(), Removal::Removed);
    }
}

/// Somebody may remove it while a producer has it open.
#[tokio::test]
async fn a_push_makes_a_queue_again_that_was_removed() {
    let file = File::new();
    let (queue, work) = (queue(&file).await, ObjectName::new("work:1").unwrap());
    assert_eq!(queue.remove(IfEventsWait::Keep).await.unwrap(), Removal::Removed);
    queue.push(&work, &[Body::from("a")]).await.unwrap();
    let worker = queue.worker("ada");
    let sent = worker.drain(|_| async { Ok::<(), seriatim::Failure>(()) }).await.unwrap().sent;
    assert_eq!(sent, 1);
}
