//! The queue keeps every promise of the contract, and producers push in their own transactions.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::name::ObjectName;
use seriatim::queue::{Body, PushError, Queue};
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
