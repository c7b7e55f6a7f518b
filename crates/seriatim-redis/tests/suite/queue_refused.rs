//! What a queue refuses: names that are not text, keys of another type, and writes of a producer that fail.

use std::sync::{Arc, Mutex};

use seriatim::Failure;
use seriatim::name::ObjectName;
use seriatim::order::EventId;
use seriatim::queue::{Body, Event, Queue};
use seriatim::store::{Discard, Discarding};
use seriatim_redis::{Redis, RedisQueue, redis};
use seriatim_testkit::servers;

use crate::support;

/// A queue, and a connection of one's own beside it.
struct Stage {
    queue: RedisQueue,
    own: redis::aio::MultiplexedConnection,
    /// The server ends with the last test that holds it.
    _server: Arc<servers::Redis>,
}

impl Stage {
    async fn set() -> Self {
        let server = support::single();
        let redis = Redis::connect(&server.url()).await.unwrap();
        let queue = RedisQueue::open(redis, support::fresh_prefix()).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let own = client.get_multiplexed_async_connection().await.unwrap();
        Stage { queue, own, _server: server }
    }

    async fn query<T: redis::FromRedisValue>(&mut self, command: &str, arguments: &[&[u8]]) -> T {
        redis::cmd(command).arg(arguments).query_async(&mut self.own).await.unwrap()
    }

    /// Pushes as the description says, with whatever bytes.
    async fn push_raw(&mut self, object: &[u8], events: &[&str]) {
        let key = [self.queue.key("").as_bytes(), object, b":events"].concat();
        for event in events {
            self.query::<()>("LPUSH", &[&key, event.as_bytes()]).await;
        }
        let queued = self.queue.key("objects.with.events");
        self.query::<()>("LPUSH", &[queued.as_bytes(), object]).await;
    }

    /// What a worker sends before nothing is left to take.
    async fn sent(&self, worker: &str) -> Vec<String> {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&sent);
        let send = move |event: Event| {
            noted.lock().unwrap().push(format!("{} {}", event.object, event.id()));
            async { Ok::<(), Failure>(()) }
        };
        self.queue.worker(worker).drain(send).await.unwrap();
        let sent = sent.lock().unwrap();
        sent.clone()
    }
}

#[tokio::test]
async fn an_object_whose_name_is_not_text_is_set_aside_by_name_and_never_sent() {
    let mut stage = Stage::set().await;
    stage.push_raw(b"work:\xff", &["one", "two"]).await;
    stage.push_raw("Straße".as_bytes(), &["three"]).await;
    assert_eq!(stage.sent("w1").await, ["Straße 3"]);
    assert_eq!(stage.sent("w2").await, Vec::<String>::new(), "no worker sends it");
    let name = ObjectName::found("not-utf8:work:%FF");
    assert_eq!(stage.queue.parked().await.unwrap(), std::slice::from_ref(&name));
    assert_eq!(stage.queue.objects().await.unwrap(), std::slice::from_ref(&name));
    assert_eq!(stage.queue.backlog().await.unwrap().events, 2);
    let view = stage.queue.inspect(&name).await.unwrap().unwrap();
    assert!(view.parked.unwrap().failure.error.contains("not UTF-8"));
    assert_eq!(view.waiting + view.sending.len() as u64, 2);
    let broken = stage.queue.invariants().await.unwrap();
    assert_eq!((broken.len(), broken[0].object.clone()), (1, name.clone()));
    assert!(broken[0].to_string().contains("its 2 events cannot be sent"), "{}", broken[0]);

    // Tried again it is set aside again; discarded it is gone.
    assert!(stage.queue.retry(&name).await.unwrap());
    assert_eq!(stage.sent("w3").await, Vec::<String>::new());
    let discarded = stage.queue.discard(&name, Discard::All(1), "no such work").await.unwrap();
    assert_eq!(discarded, Discarding::Done(2));
    assert_eq!(stage.queue.discarded(1).await.unwrap()[0].object, name);
    assert_eq!(stage.queue.invariants().await.unwrap(), []);
    assert_eq!(stage.queue.objects().await.unwrap(), []);
}

#[tokio::test]
async fn every_name_that_is_text_is_sent_and_no_other() {
    let mut stage = Stage::set().await;
    let names = ["a", "é", "€", "퟿", "𐍈", "\u{10ffff}", "x\u{fffd}y", "\u{7f}\u{80}"];
    for name in names {
        stage.push_raw(name.as_bytes(), &["1"]).await;
    }
    let bad: [&[u8]; 9] = [
        b"",
        b"\x80",
        b"\xc0\xaf",
        b"\xc3",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"a\xe2\x82",
    ];
    for name in bad {
        stage.push_raw(name, &["1"]).await;
    }
    assert_eq!(stage.sent("w1").await.len(), names.len());
    assert_eq!(stage.queue.parked().await.unwrap().len(), bad.len());
}

#[tokio::test]
async fn an_object_whose_key_is_no_list_is_set_aside_alone() {
    let mut stage = Stage::set().await;
    let key = stage.queue.key("work:1:events");
    stage.query::<()>("SET", &[key.as_bytes(), b"text"]).await;
    let queued = stage.queue.key("objects.with.events");
    stage.query::<()>("LPUSH", &[queued.as_bytes(), b"work:1"]).await;
    stage.push_raw(b"work:2", &["1"]).await;
    assert_eq!(stage.sent("w1").await, ["work:2 1"]);
    assert_eq!(stage.queue.parked().await.unwrap(), [ObjectName::found("work:1")]);
}

#[tokio::test]
async fn a_push_whose_writes_fail_leaves_nothing_of_them() {
    let mut stage = Stage::set().await;
    let key = |name: &str| stage.queue.key(name);
    let (title, count, tags, fresh) = (key("title"), key("count"), key("tags"), key("fresh"));
    let mut before = redis::pipe();
    before.set(&title, "Emma").ignore().cmd("PEXPIREAT").arg(&title).arg(4_102_444_800_000_u64).ignore();
    before.set(&count, 7).ignore().rpush(&tags, &["a", "b"]).ignore();
    before.exec_async(&mut stage.own).await.unwrap();

    let mut writes = redis::pipe();
    writes
        .set(&title, "Persuasion")
        .incr(&count, 1)
        .set(&fresh, 1)
        .publish("news", "no")
        .incr(&tags, 1)
        .del(&count);
    let object = ObjectName::new("work:1").unwrap();
    let events = [Body::from("1")];
    let refused = stage.queue.push_with(&object, &events, &writes).await.unwrap_err().to_string();
    assert!(refused.contains("command 4 of the producer, failed: WRONGTYPE"), "{refused}");
    assert!(refused.contains("nothing was written"), "{refused}");
    assert_eq!(stage.query::<String>("GET", &[title.as_bytes()]).await, "Emma");
    assert_eq!(stage.query::<u64>("PEXPIRETIME", &[title.as_bytes()]).await, 4_102_444_800_000);
    assert_eq!(stage.query::<u64>("GET", &[count.as_bytes()]).await, 7);
    assert_eq!(stage.query::<u64>("EXISTS", &[fresh.as_bytes()]).await, 0);
    assert_eq!(stage.query::<Vec<String>>("LRANGE", &[tags.as_bytes(), b"0", b"-1"]).await, ["a", "b"]);
    assert_eq!(stage.queue.backlog().await.unwrap().events, 0);

    let mut writes = redis::pipe();
    writes.set(&title, "Persuasion").incr(&count, 1).publish("news", "yes");
    stage.queue.push_with(&object, &events, &writes).await.unwrap();
    assert_eq!(stage.query::<String>("GET", &[title.as_bytes()]).await, "Persuasion");
    assert_eq!(stage.queue.inspect(&object).await.unwrap().unwrap().waiting, 1);
}

#[tokio::test]
async fn a_push_refuses_writes_that_could_not_be_undone() {
    let mut stage = Stage::set().await;
    let (large, small) = (stage.queue.key("large"), stage.queue.key("small"));
    stage.query::<()>("SET", &[large.as_bytes(), &vec![b'x'; 2 << 20]]).await;
    let object = ObjectName::new("work:1").unwrap();
    let events = [Body::from("1")];
    let refused = async |writes: &redis::Pipeline| {
        stage.queue.push_with(&object, &events, writes).await.unwrap_err().to_string()
    };
    let said = refused(redis::pipe().append(&large, "y").set(&small, 1)).await;
    assert!(said.contains("is too large to be copied") && said.contains("put it last"), "{said}");
    let said = refused(redis::pipe().cmd("SELECT").arg(3).set(&small, 1)).await;
    assert!(said.contains("SELECT cannot be undone"), "{said}");
    let said = refused(redis::pipe().cmd("SETT").arg(&small)).await;
    assert!(said.contains("SETT cannot be undone: ERR Invalid command"), "{said}");
    assert_eq!(stage.queue.backlog().await.unwrap().events, 0);
    // The last one needs no copy: it fails alone, or not at all.
    let mut writes = redis::pipe();
    writes.set(&small, 1).append(&large, "y");
    stage.queue.push_with(&object, &events, &writes).await.unwrap();
    assert_eq!(stage.query::<u64>("STRLEN", &[large.as_bytes()]).await, (2 << 20) + 1);
    assert_eq!(stage.queue.inspect(&object).await.unwrap().unwrap().last, None::<EventId>);
}
