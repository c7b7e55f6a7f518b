//! The queue keeps every promise of the contract, and producers push in their own transactions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::name::{HostName, ObjectName};
use seriatim::queue::{Body, IfEventsWait, Next, PushError, Queue, Removal, Take, WorkerSession};
use seriatim_postgres::tokio_postgres::{Client, IsolationLevel};
use seriatim_postgres::{Database, PostgresQueue};
use seriatim_testkit::queue::QueueHarness;

use crate::support::{Place, until};

async fn queue(place: &Place) -> PostgresQueue {
    let database = Database::connect(place.url()).unwrap();
    PostgresQueue::open(database, &FeedName::new("works").unwrap()).await.unwrap()
}

#[async_trait]
impl QueueHarness for Place {
    async fn open(&self) -> Arc<dyn Queue> {
        Arc::new(queue(self).await)
    }

    async fn with_limit(&self, limit: u64) -> Arc<dyn Queue> {
        Arc::new(queue(self).await.limited_to(limit))
    }
}

seriatim_testkit::queue_conformance!(Place::new());

fn work() -> ObjectName {
    ObjectName::new("work:1").unwrap()
}

async fn joined(queue: &PostgresQueue) -> WorkerSession {
    queue.join(&HostName::new("ada").unwrap(), Duration::from_secs(10), None).await.unwrap()
}

/// Takes whatever there is and drains it, one event at a time.
async fn drained(queue: &PostgresQueue, session: &WorkerSession) -> Vec<String> {
    let mut bodies = Vec::new();
    while let Take::Taken(taken) = queue.take(session, 1).await.unwrap() {
        let mut events = taken.events;
        loop {
            bodies.extend(events.iter().map(|event| format!("{:?}", event.body)));
            let sent = events.last().map(|event| event.id());
            match queue.next(&taken.hold, sent, 1).await.unwrap() {
                Next::Events(more) => events = more,
                Next::Released | Next::Lost => break,
            }
        }
    }
    bodies
}

async fn push(client: &Client, event: &str) {
    client.execute("select seriatim.queue_push('works', 'work:1', $1)", &[&event]).await.unwrap();
}

#[tokio::test]
async fn events_are_pushed_with_the_producers_write_or_not_at_all() {
    let place = Place::new();
    let queue = queue(&place).await.limited_to(2);
    let mut client = place.client().await;
    client.batch_execute("create table work (title text)").await.unwrap();
    for (title, commits) in [("Emma", true), ("Persuasion", false)] {
        let transaction = client.transaction().await.unwrap();
        transaction.execute("insert into work values ($1)", &[&title]).await.unwrap();
        queue.push_in(&transaction, "work:1", &[Body::from(title)]).await.unwrap();
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    assert_eq!(place.number("select count(*) from work").await, 1);
    assert_eq!(queue.inspect(&work()).await.unwrap().unwrap().waiting, 1);
    let transaction = client.transaction().await.unwrap();
    let refused = queue.push_in(&transaction, "work:1", &[Body::from("a"), Body::from("b")]).await;
    assert!(matches!(refused, Err(PushError::Full { queued: 1, .. })), "{refused:?}");
    transaction.execute("insert into work values ('Mansfield Park')", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(
        place.number("select count(*) from work").await,
        2,
        "a refused push leaves the transaction usable"
    );
}

#[tokio::test]
async fn any_language_pushes_by_sql() {
    let place = Place::new();
    let queue = queue(&place).await;
    let client = place.client().await;
    let pushed = r#"select seriatim.queue_push('works', 'work:1', '{"title":"Emma"}', '{"year":1815}')"#;
    client.batch_execute(pushed).await.unwrap();
    let session = joined(&queue).await;
    assert_eq!(drained(&queue, &session).await, [r#"{"title":"Emma"}"#, r#"{"year":1815}"#]);
    let full = "select seriatim.queue_push_at_most('works', 'work:1', 1, 'a', 'b')";
    let refused = client.batch_execute(full).await.unwrap_err();
    let said = refused.as_db_error().unwrap().message().to_owned();
    assert_eq!(said, "object work:1 has 0 events waiting and may have 1, so 2 more were refused");
    let unknown =
        client.batch_execute("select seriatim.queue_push('wroks', 'work:1', 'a')").await.unwrap_err();
    assert_eq!(unknown.as_db_error().unwrap().message(), "there is no queue wroks");
}

/// An id is drawn before the commit. Were it not for the lock of the object's line, the second would overtake the first.
#[tokio::test]
async fn events_of_one_object_leave_in_the_order_of_their_commits() {
    let place = Place::new();
    let queue = queue(&place).await;
    let (mut first, second) = (place.client().await, place.client().await);
    let session = joined(&queue).await;
    let transaction = first.transaction().await.unwrap();
    let body = "first";
    transaction.execute("select seriatim.queue_push('works', 'work:1', $1)", &[&body]).await.unwrap();
    let overtaking = async {
        push(&second, "second").await;
    };
    let committing = async {
        place.waits_for_a_lock().await;
        assert_eq!(drained(&queue, &session).await, [""; 0], "neither is committed");
        transaction.commit().await.unwrap();
    };
    tokio::join!(overtaking, committing);
    assert_eq!(drained(&queue, &session).await, ["first", "second"]);
}

#[tokio::test]
async fn an_open_transaction_of_a_producer_keeps_no_worker_waiting() {
    let place = Place::new();
    let queue = queue(&place).await;
    let session = joined(&queue).await;
    let mut producer = place.client().await;
    push(&producer, "before").await;
    let transaction = producer.transaction().await.unwrap();
    transaction.execute("select seriatim.queue_push('works', 'work:1', 'open')", &[]).await.unwrap();
    assert_eq!(drained(&queue, &session).await, ["before"], "and it is released, though more is to come");
    assert_eq!(queue.invariants().await.unwrap(), []);
    transaction.commit().await.unwrap();
    assert_eq!(queue.invariants().await.unwrap(), []);
    assert_eq!(drained(&queue, &session).await, ["open"]);
}

#[tokio::test]
async fn a_push_wakes_a_worker_that_seldom_looks() {
    let place = Place::new();
    let queue = queue(&place).await.looking_every(Duration::from_secs(300));
    let listens = "select count(*) from pg_stat_activity where datname = current_database() and query = 'listen seriatim_queue'";
    let waiting = queue.wait(Duration::from_secs(300));
    let pushing = async {
        until("it listens", async || place.number(listens).await == 1).await;
        queue.push(&work(), &[Body::from("a")]).await.unwrap();
    };
    let both = async { tokio::join!(waiting, pushing) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("woken");
}

#[tokio::test]
async fn a_worker_that_cannot_listen_looks() {
    let place = Place::new();
    let queue = queue(&place).await;
    let deaf = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query = 'listen seriatim_queue'";
    let waiting = queue.wait(Duration::from_secs(300));
    let pushing = async {
        until("it is deaf", async || place.client().await.query(deaf, &[]).await.unwrap().len() == 1).await;
        push(&place.client().await, "a").await;
    };
    let both = async { tokio::join!(waiting, pushing) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("it looked");
}

/// What a failover to a server that lacks the last moments does.
#[tokio::test]
async fn a_counter_that_was_lost_is_raised_above_what_the_object_has_seen() {
    let place = Place::new();
    let queue = queue(&place).await;
    let session = joined(&queue).await;
    for _ in 0..5 {
        queue.push(&work(), &[Body::from("a")]).await.unwrap();
    }
    drained(&queue, &session).await;
    let last = queue.inspect(&work()).await.unwrap().unwrap().last.unwrap();
    place.run("select setval('seriatim.queue_event_id', 1)").await;
    queue.push(&work(), &[Body::from("b")]).await.unwrap();
    let Take::Taken(taken) = queue.take(&session, 1).await.unwrap() else { panic!("there is one") };
    assert!(taken.events[0].id() > last, "{:?} after {last:?}", taken.events[0]);
    assert_eq!(queue.invariants().await.unwrap(), []);
}

#[tokio::test]
async fn a_producer_needs_no_more_than_the_schema() {
    let place = Place::new();
    queue(&place).await;
    let role = format!("producer_{}", fastrand::u64(..));
    place.run(&format!("create role {role}; grant usage on schema seriatim to {role}")).await;
    place.run(&format!("set role {role}; select seriatim.queue_push('works', 'work:1', 'a')")).await;
    assert_eq!(place.number("select count(*) from seriatim.queue_event").await, 1);
    place.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn a_limit_is_kept_or_refused_in_every_isolation_level() {
    let place = Place::new();
    queue(&place).await;
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let mut producer = place.client().await;
        let (begin, object) = (format!("begin isolation level {isolation}"), format!("work:{isolation}"));
        let other = format!("select seriatim.queue_push_at_most('works', '{object}', 2, 'a')");
        place.run(&other).await;
        producer.batch_execute(&begin).await.unwrap();
        producer.query("select 1 from pg_class limit 1", &[]).await.unwrap();
        place.run(&other).await;
        let pushed =
            producer.execute("select seriatim.queue_push_at_most('works', $1, 2, 'b')", &[&object]).await;
        let refused = pushed.expect_err(isolation);
        let refused = refused.as_db_error().unwrap();
        let sentence = if isolation == "read committed" {
            "may have 2"
        } else {
            "needs a transaction that is READ COMMITTED"
        };
        assert!(refused.message().contains(sentence), "{isolation}: {refused}");
        assert!(refused.hint().is_some(), "{isolation}: {refused}");
        producer.batch_execute("rollback").await.unwrap();
        // Without a limit every transaction may push.
        let transaction = producer.build_transaction();
        let level = match isolation {
            "read committed" => IsolationLevel::ReadCommitted,
            "repeatable read" => IsolationLevel::RepeatableRead,
            _ => IsolationLevel::Serializable,
        };
        let transaction = transaction.isolation_level(level).start().await.unwrap();
        transaction.execute("select seriatim.queue_push('works', $1, 'c')", &[&object]).await.unwrap();
        transaction.commit().await.unwrap();
        let waiting = format!("select count(*) from seriatim.queue_event where object = '{object}'");
        assert_eq!(place.number(&waiting).await, 3);
    }
}

#[tokio::test]
async fn a_push_does_not_read_what_waits() {
    let place = Place::new();
    queue(&place).await;
    place
        .run(
            "insert into seriatim.queue_line values ('works', 'work:1'); \
             insert into seriatim.queue_object values ('works', 'work:1'); \
             insert into seriatim.queue_event \
             select 'works', 'work:1', nextval('seriatim.queue_event_id'), now(), '' from generate_series(1, 20000)",
        )
        .await;
    for before in ["select 1", "analyze seriatim.queue_event", "vacuum seriatim.queue_event"] {
        let mut producer = place.client().await;
        producer.batch_execute(before).await.unwrap();
        let transaction = producer.transaction().await.unwrap();
        transaction.batch_execute("select seriatim.queue_push('works', 'work:1', 'a')").await.unwrap();
        let read = "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) \
                    from pg_stat_xact_user_tables where relid = 'seriatim.queue_event'::regclass";
        let read: i64 = transaction.query_one(read, &[]).await.unwrap().get(0);
        assert!(read < 10, "after {before} it read {read} events");
    }
}

#[tokio::test]
async fn entries_of_an_object_that_is_always_pushed_to_do_not_pile_up() {
    let place = Place::new();
    let queue = queue(&place).await;
    let session = joined(&queue).await;
    queue.push(&work(), &[Body::from("a")]).await.unwrap();
    let Take::Taken(taken) = queue.take(&session, 1).await.unwrap() else { panic!("there is one") };
    let mut events = taken.events;
    for _ in 0..20 {
        queue.push(&work(), &[Body::from("b")]).await.unwrap();
        let sent = events.last().map(|event| event.id());
        let Next::Events(more) = queue.next(&taken.hold, sent, 1).await.unwrap() else { panic!("held") };
        events = more;
    }
    assert_eq!(place.number("select count(*) from seriatim.queue_waiting").await, 0);
}

/// The push may still be rolled back, and may still be committed: whoever removes the queue waits for that.
#[tokio::test]
async fn a_producer_that_is_not_over_loses_no_event_to_a_removal() {
    let place = Place::new();
    let queue = queue(&place).await;
    let mut client = place.client().await;
    let transaction = client.transaction().await.unwrap();
    queue.push_in(&transaction, "work:1", &[Body::from("a")]).await.unwrap();
    let removing = tokio::spawn({
        let queue = queue.clone();
        async move { queue.remove(IfEventsWait::Keep).await.unwrap() }
    });
    let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    until("the removal waits", async || place.number(waits).await == 1).await;
    transaction.commit().await.unwrap();
    let removal = removing.await.unwrap();
    assert!(matches!(removal, Removal::Waiting(left) if left.events == 1), "{removal:?}");
    let session = joined(&queue).await;
    assert_eq!(drained(&queue, &session).await, ["a"]);
}

/// Its snapshot still has the queue. An event that it pushed would be in none.
#[tokio::test]
async fn a_producer_with_an_old_snapshot_cannot_push_to_a_queue_that_was_removed() {
    let place = Place::new();
    let queue = queue(&place).await;
    let mut client = place.client().await;
    let repeatable = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let transaction = repeatable.start().await.unwrap();
    transaction.query("select 1 from pg_class limit 1", &[]).await.unwrap();
    assert_eq!(queue.remove(IfEventsWait::Keep).await.unwrap(), Removal::Removed);
    assert!(queue.push_in(&transaction, "work:1", &[Body::from("a")]).await.is_err());
    drop(transaction);
    assert_eq!(place.number("select count(*) from seriatim.queue_event").await, 0);
}
