//! What producers and people who look with `redis-cli` rely on, and what happens when the server forgets.

use std::sync::Arc;
use std::time::Duration;

use seriatim::HostName;
use seriatim::name::ObjectName;
use seriatim::queue::{Body, IfEventsWait, Next, PushError, Queue, Removal, Take, Taken};
use seriatim_redis::{Prefix, Redis, RedisQueue, redis};
use seriatim_testkit::servers;

use crate::support;

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

/// A queue, and a connection of one's own beside it.
struct Stage {
    server: Arc<servers::Redis>,
    queue: RedisQueue,
    own: redis::aio::MultiplexedConnection,
}

impl Stage {
    async fn set() -> Self {
        Stage::on(support::single(), support::fresh_prefix()).await
    }

    async fn on(server: Arc<servers::Redis>, prefix: Prefix) -> Self {
        let queue = RedisQueue::open(Redis::connect(&server.url()).await.unwrap(), prefix).unwrap();
        let own =
            redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        Stage { server, queue, own }
    }

    async fn query<T: redis::FromRedisValue>(&mut self, command: &str, arguments: &[&str]) -> T {
        redis::cmd(command).arg(arguments).query_async(&mut self.own).await.unwrap()
    }

    async fn take(&self) -> Taken {
        let session = match self.queue.workers().await.unwrap().into_iter().next() {
            Some(seen) => seriatim::queue::WorkerSession { worker: seen.name, id: seen.session },
            None => {
                self.queue.join(&HostName::new("w1").unwrap(), Duration::from_secs(10), None).await.unwrap()
            }
        };
        match self.queue.take(&session, 1).await.unwrap() {
            Take::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_producer_pushes_in_its_own_transaction() {
    let mut stage = Stage::set().await;
    let data = stage.queue.key("work:1:data");
    let mut pipe = redis::pipe();
    pipe.atomic().set(&data, "Emma").ignore();
    stage.queue.push_to(&mut pipe, "work:1", &["main", "sub"]).unwrap();
    pipe.exec_async(&mut stage.own).await.unwrap();
    assert_eq!(stage.query::<String>("GET", &[&data]).await, "Emma");
    let taken = stage.take().await;
    assert_eq!(taken.events[0].body, Body::from("main"));
    let next = stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    assert!(matches!(next, Next::Events(events) if events[0].body == Body::from("sub")));
}

#[tokio::test]
async fn the_keys_are_those_of_the_description_and_any_client_can_push() {
    let server = Arc::new(servers::Redis::start().unwrap());
    let mut stage = Stage::on(server, Prefix::exactly("")).await;
    stage.query::<()>("LPUSH", &["work:1:events", "main", "sub"]).await;
    stage.query::<()>("LPUSH", &["objects.with.events", "work:1"]).await;
    let taken = stage.take().await;
    assert_eq!(stage.query::<String>("GET", &["work:1:event.worker"]).await, "w1");
    assert_eq!(
        stage.query::<Vec<String>>("LRANGE", &["event.worker:w1:object", "0", "-1"]).await,
        ["work:1"]
    );
    stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    assert_eq!(stage.query::<u64>("GET", &["work:1:last.event.id"]).await, 1);
    assert_eq!(stage.query::<u64>("GET", &["next.event.id"]).await, 2);
    assert_eq!(stage.queue.invariants().await.unwrap(), []);
}

#[tokio::test]
async fn a_refused_push_writes_nothing_of_the_producers_either() {
    let mut stage = Stage::set().await;
    let bounded = stage.queue.clone().limited_to(1);
    let data = bounded.key("work:1:data");
    for (title, fits) in [("Emma", true), ("Persuasion", false)] {
        let mut writes = redis::pipe();
        writes.set(&data, title).ignore();
        let pushed = bounded.push_with(&object("work:1"), &[Body::from("x")], &writes).await;
        assert_eq!(pushed.is_ok(), fits);
        assert!(fits || matches!(pushed, Err(PushError::Full { .. })));
    }
    assert_eq!(stage.query::<String>("GET", &[&data]).await, "Emma");
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let mut stage = Stage::set().await;
    stage.queue.push(&object("work:1"), &[Body::from("a"), Body::from("b")]).await.unwrap();
    let taken = stage.take().await;
    stage.query::<()>("SCRIPT", &["FLUSH"]).await;
    let next = stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    assert!(matches!(next, Next::Events(_)));
}

#[tokio::test]
async fn a_server_that_was_restarted_is_found_again() {
    let mut server = servers::Redis::start().unwrap();
    let redis = Redis::connect(&server.url()).await.unwrap();
    let queue = RedisQueue::open(redis, support::fresh_prefix()).unwrap();
    queue.push(&object("work:1"), &[Body::from("a")]).await.unwrap();
    server.restart().unwrap();
    let mut pushed = queue.push(&object("work:1"), &[Body::from("a")]).await;
    for _ in 0..100 {
        if pushed.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        pushed = queue.push(&object("work:1"), &[Body::from("a")]).await;
    }
    pushed.unwrap();
}

#[tokio::test]
async fn a_counter_that_was_lost_is_raised_above_what_the_object_has_seen() {
    let mut stage = Stage::set().await;
    for event in ["a", "b"] {
        stage.queue.push(&object("work:1"), &[Body::from(event)]).await.unwrap();
    }
    let taken = stage.take().await;
    let first = taken.events[0].id();
    let counter = stage.queue.key("next.event.id");
    let last = stage.queue.key("work:1:last.event.id");
    // As if 1000 more had been sent, and a failover had lost the counter.
    stage.queue.next(&taken.hold, Some(first), 1).await.unwrap();
    stage.queue.release(&taken.hold, Some(seriatim::order::EventId(first.0 + 1))).await.unwrap();
    stage.query::<()>("SET", &[&last, "1000"]).await;
    stage.query::<()>("SET", &[&counter, "7"]).await;
    stage.queue.push(&object("work:1"), &[Body::from("c")]).await.unwrap();
    let event = stage.take().await.events.remove(0);
    assert_eq!((event.id().0, event.prev().map(|prev| prev.0)), (1001, Some(1000)));
    assert_eq!(stage.query::<u64>("GET", &[&counter]).await, 1001);
}

#[tokio::test]
async fn great_numbers_keep_their_digits() {
    let mut stage = Stage::set().await;
    let counter = stage.queue.key("next.event.id");
    stage.query::<()>("SET", &[&counter, "9007199254740000"]).await;
    stage.queue.push(&object("work:1"), &[Body::from("a"), Body::from("b")]).await.unwrap();
    let taken = stage.take().await;
    assert_eq!(taken.events[0].id().0, 9_007_199_254_740_001);
    let next = stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    assert!(matches!(next, Next::Events(events) if events[0].prev() == Some(taken.events[0].id())));
}

#[tokio::test]
async fn broken_invariants_are_named() {
    let mut stage = Stage::set().await;
    stage.queue.push(&object("work:1"), &[Body::from("a")]).await.unwrap();
    let queued = stage.queue.key("objects.with.events");
    stage.query::<()>("DEL", &[&queued]).await;
    let broken = stage.queue.invariants().await.unwrap();
    assert_eq!(broken.len(), 1);
    assert!(broken[0].to_string().starts_with("work:1: an object with events is queued, held or parked"));
}

#[tokio::test]
async fn an_id_leaves_only_when_replicas_have_it() {
    let stage = Stage::set().await;
    let within = std::time::Duration::from_millis(20);
    let confirmed = stage.queue.clone().confirmed_by(1, within).unwrap();
    stage.queue.push(&object("work:1"), &[Body::from("a")]).await.unwrap();
    let session = confirmed.join(&HostName::new("w1").unwrap(), Duration::from_secs(10), None).await.unwrap();
    let refused = confirmed.take(&session, 1).await.unwrap_err();
    assert!(refused.to_string().contains("of 1 have confirmed"), "{refused}");
    // It is held all the same, and the next sign of life tells.
    assert_eq!(confirmed.beat(&session).await.unwrap().unwrap().len(), 1);
    assert!(stage.server.url().starts_with("redis://"));
}

#[tokio::test]
async fn a_cluster_wants_a_hash_tag() {
    let cluster = support::cluster();
    let redis = Redis::connect(&cluster.url()).await.unwrap();
    let refused = RedisQueue::open(redis, Prefix::exactly("works:")).err().unwrap();
    assert!(refused.to_string().contains("would be in many slots"), "{refused}");
    assert_eq!(refused.remedy(), Some("give the prefix a hash tag, such as {shop}:"));
}

#[tokio::test]
async fn a_server_that_is_not_there_or_speaks_no_tls_is_an_error_without_the_password() {
    let server = support::single();
    let port = server.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    for url in [format!("rediss://me:secret@127.0.0.1:{port}/"), "redis://me:secret@127.0.0.1:1/".to_owned()]
    {
        let error = Redis::connect(&url).await.err().unwrap().to_string();
        assert!(
            error.starts_with("connecting to Redis at 127.0.0.1") && !error.contains("secret"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_queue_that_is_removed_leaves_nothing_but_its_producers_own_keys() {
    let mut stage = Stage::set().await;
    let data = stage.queue.key("work:1:data");
    let () = stage.query("SET", &[&data, "Emma"]).await;
    for name in ["work:1", "work:2", "Straße"] {
        stage.queue.push(&object(name), &[Body::from("a"), Body::from("b")]).await.unwrap();
    }
    let taken = stage.take().await;
    stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap();
    assert!(matches!(stage.queue.remove(IfEventsWait::Keep).await.unwrap(), Removal::Waiting(_)));
    assert_eq!(stage.queue.remove(IfEventsWait::Drop).await.unwrap(), Removal::Removed);
    let pattern = stage.queue.key("*");
    assert_eq!(stage.query::<Vec<String>>("KEYS", &[&pattern]).await, [data]);
}

/// Wherever the push falls between the steps of a removal that has seen an empty queue.
#[tokio::test]
async fn what_is_pushed_during_a_removal_is_not_lost() {
    let stage = Stage::set().await;
    let (queue, event) = (&stage.queue, [Body::from("a")]);
    for round in 0..200 {
        let name = object(&format!("work:{}", round % 7));
        let push = async {
            // Another place among the steps each time.
            for _ in 0..round % 5 {
                queue.backlog().await.unwrap();
            }
            queue.push(&name, &event).await.unwrap();
        };
        let removals = async {
            for _ in 0..3 {
                queue.remove(IfEventsWait::Keep).await.unwrap();
            }
        };
        tokio::join!(push, removals);
        let worker = queue.worker("w1");
        let sent = worker.drain(|_| async { Ok::<(), seriatim::Failure>(()) }).await.unwrap().sent;
        assert_eq!(sent, 1, "round {round}");
    }
}

#[tokio::test]
async fn what_a_worker_of_the_description_left_is_taken_over_in_its_place() {
    let server = Arc::new(servers::Redis::start().unwrap());
    let mut stage = Stage::on(server, Prefix::exactly("")).await;
    // Worker 2 crashed while it sent event 7 of work:1; worker 3 had only taken work:2 from the list.
    for command in [
        "SET next.event.id 7",
        "SET work:1:last.event.id 5",
        "SET work:1:event.worker 2",
        "LPUSH event.worker:2:object work:1",
        "LPUSH event.worker:2:event first",
        "SET event.worker:2:event.id 7",
        "LPUSH work:1:events second",
        "LPUSH event.worker:3:object work:2",
        "LPUSH work:2:events other",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        stage.query::<redis::Value>(words[0], &words[1..]).await;
    }
    let mut adopted = stage.queue.adopt().await.unwrap();
    adopted.sort_by(|a, b| a.worker.cmp(&b.worker));
    let told: Vec<String> =
        adopted.iter().map(|a| format!("{} {} {:?}", a.worker, a.object, a.id.map(|id| id.0))).collect();
    assert_eq!(told, ["2 work:1 Some(7)", "3 work:2 None"]);
    assert_eq!(stage.queue.adopt().await.unwrap(), [], "once");
    assert_eq!(stage.queue.invariants().await.unwrap(), []);
    let view = stage.queue.inspect(&object("work:1")).await.unwrap().unwrap();
    assert_eq!((view.sending.len(), view.waiting), (1, 1));
    let mut sent = Vec::new();
    for _ in 0..2 {
        let mut taken = stage.take().await;
        loop {
            let event = taken.events.remove(0);
            sent.push(format!(
                "{} {} after {:?}: {}",
                event.object,
                event.id(),
                event.prev().map(|id| id.0),
                event.body.to_json()
            ));
            match stage.queue.next(&taken.hold, Some(event.id()), 1).await.unwrap() {
                Next::Events(events) => taken.events = events,
                Next::Released => break,
                Next::Lost => panic!("nobody else works here"),
            }
        }
    }
    sent.sort();
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent[0].starts_with("work:1 7 after Some(5): "), "{sent:?}");
    assert!(sent[1].starts_with("work:1 ") && sent[1].contains(" after Some(7): "), "{sent:?}");
}

#[tokio::test]
async fn workers_of_this_program_are_not_taken_over() {
    let stage = Stage::set().await;
    stage.queue.push(&object("work:1"), &[Body::from("main")]).await.unwrap();
    let taken = stage.take().await;
    assert_eq!(stage.queue.adopt().await.unwrap(), []);
    assert!(!matches!(
        stage.queue.next(&taken.hold, Some(taken.events[0].id()), 1).await.unwrap(),
        Next::Lost
    ));
}
