//! Redis Streams against real servers: one, and a Cluster of three.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use seriatim::{Change, Handler};
use seriatim_handlers::{Envelope, Generation, RedisStream, StreamSettings};
use seriatim_redis::redis::{Value, cmd};
use seriatim_redis::{Redis, string};
use seriatim_testkit::servers::{self, Proxy};
use seriatim_testkit::sink_conformance::{SinkHarness, at, change};

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn shared<T>(running: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut running = running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(start());
        *running = Arc::downgrade(&server);
        server
    })
}

/// A stream of its own on a server that tests share.
struct Stream {
    name: String,
    url: String,
    /// Between the sink and the server.
    proxy: Option<Proxy>,
    _server: Arc<dyn Send + Sync>,
}

impl Stream {
    fn single() -> Self {
        static SERVER: Mutex<Weak<servers::Redis>> = Mutex::new(Weak::new());
        let server = shared(&SERVER, || servers::Redis::start().unwrap());
        Stream {
            name: fresh_name(),
            url: server.url(),
            proxy: Some(Proxy::before(server.port()).unwrap()),
            _server: server,
        }
    }

    fn cluster() -> Self {
        static SERVER: Mutex<Weak<servers::RedisCluster>> = Mutex::new(Weak::new());
        let server = shared(&SERVER, || servers::Redis::start_cluster().unwrap());
        Stream { name: fresh_name(), url: server.url(), proxy: None, _server: server }
    }

    fn settings(&self, generation: Option<u64>) -> StreamSettings {
        let url = match &self.proxy {
            Some(proxy) => format!("redis://127.0.0.1:{}/", proxy.port()),
            None => self.url.clone(),
        };
        StreamSettings {
            url,
            stream: self.name.clone(),
            feed: "orders".to_owned(),
            key: None,
            most_entries: None,
            envelope: Envelope::default(),
            generations: generation.map(|generation| Arc::new(Generation(generation)) as _),
        }
    }

    /// The entries of the stream, each with its names and values.
    async fn entries(&self) -> Vec<Vec<(String, String)>> {
        let redis = Redis::connect(&self.url).await.unwrap();
        let Value::Array(entries) =
            redis.query(cmd("XRANGE").arg(&self.name).arg("-").arg("+")).await.unwrap()
        else {
            panic!("no entries")
        };
        entries.into_iter().map(fields).collect()
    }
}

fn fresh_name() -> String {
    format!("orders-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn fields(entry: Value) -> Vec<(String, String)> {
    let Value::Array(parts) = entry else { panic!("{entry:?}") };
    let Some(Value::Array(fields)) = parts.into_iter().nth(1) else { panic!("no fields") };
    let texts: Vec<String> =
        fields.into_iter().map(|text| String::from_utf8(string(text).unwrap()).unwrap()).collect();
    texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn field<'a>(entry: &'a [(String, String)], name: &str) -> &'a str {
    entry.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
}

#[async_trait]
impl SinkHarness for Stream {
    async fn open(&self, generation: u64) -> Arc<dyn Handler> {
        Arc::new(RedisStream::new(self.settings(Some(generation))).unwrap())
    }

    async fn read(&self) -> Vec<(i64, u64)> {
        let number = |entry: &[(String, String)], name| field(entry, name).parse::<i64>().unwrap();
        self.entries().await.iter().map(|entry| (number(entry, "key"), number(entry, "id") as u64)).collect()
    }

    fn take_away(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.close();
        }
    }

    fn bring_back(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.open();
        }
    }

    fn lose_next_answer(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.lose_answer_to(&self.name);
        }
    }

    fn too_large(&self) -> usize {
        65 << 20
    }

    fn refuses_old_epochs(&self) -> bool {
        true
    }
}

mod single {
    use super::Stream;

    seriatim_testkit::sink_conformance!(Stream::single());
}

mod cluster {
    use super::Stream;

    // A Cluster's client finds its nodes by their own addresses, past any proxy: losing answers and the target is for the single one.
    seriatim_testkit::sink_promises! { Stream::cluster();
        changes_of_an_object_are_held_in_order, a_change_that_is_sent_again_is_held_once,
        a_zombie_adds_nothing_that_its_successor_does_not_expect, a_rewound_feed_is_held_once_more,
        what_was_parked_is_held_once_also_from_another_partition, many_hosts_at_once_hold_each_once,
    }
}

#[tokio::test]
async fn an_entry_can_be_routed_without_reading_the_change() {
    let stream = Stream::single();
    let sink = stream.open(1).await;
    let sent = Change { prev: Some(4), ..change(7, 5) };
    sink.handle(std::slice::from_ref(&sent), &at(0, 2)).await.unwrap();
    let entries = stream.entries().await;
    let expected = [("feed", "orders"), ("id", "5"), ("op", "update"), ("key", "7"), ("prev", "4")];
    for (name, value) in expected {
        assert_eq!(field(&entries[0], name), value);
    }
    assert_eq!(field(&entries[0], "change"), sent.to_json());
}

#[tokio::test]
async fn where_ids_do_not_rise_every_sending_is_an_entry() {
    let stream = Stream::single();
    let sink = RedisStream::new(stream.settings(None)).unwrap();
    for id in [5, 3, 3] {
        sink.handle(&[change(1, id)], &at(0, 2)).await.unwrap();
    }
    assert_eq!(stream.read().await, [(1, 5), (1, 3), (1, 3)]);
}

#[tokio::test]
async fn a_stream_that_is_bounded_drops_its_oldest_entries() {
    let stream = Stream::single();
    let settings = StreamSettings { most_entries: Some(100), ..stream.settings(Some(1)) };
    let sink = RedisStream::new(settings).unwrap();
    let batch: Vec<Change> = (1..1000).map(|id| change(1, id)).collect();
    sink.handle(&batch, &at(0, 2)).await.unwrap();
    let read = stream.read().await;
    assert!(read.len() < 400, "{}", read.len());
    assert_eq!(read.last(), Some(&(1, 999)));
}

#[tokio::test]
async fn a_server_that_is_killed_after_its_answer_has_every_change_once() {
    let mut server = servers::Redis::start_durable().unwrap();
    let stream = |url: String| Stream { name: "orders".to_owned(), url, proxy: None, _server: Arc::new(()) };
    let here = stream(server.url());
    let sink = here.open(1).await;
    for id in 1..20u64 {
        sink.handle(&[change(id as i64 % 3, id)], &at(0, 2)).await.unwrap();
        if id % 6 == 0 {
            server.restart().unwrap();
            // It comes again, as after a crash of its host.
            let mut tries = 0;
            while let Err(failure) = sink.handle(&[change(id as i64 % 3, id)], &at(0, 2)).await {
                tries += 1;
                assert!(tries < 200, "{failure}");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
    let read = here.read().await;
    assert_eq!(read.iter().map(|(_, id)| *id).collect::<Vec<_>>(), (1..20).collect::<Vec<_>>());
}
