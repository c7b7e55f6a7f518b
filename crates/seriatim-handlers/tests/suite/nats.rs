//! JetStream against a real server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context as JetStream};
use async_trait::async_trait;
use seriatim::handler::FailureKind;
use seriatim::value::{Key, Value};
use seriatim::{Change, Handler};
use seriatim_handlers::{Envelope, Format, Generation, Guarantee, Mode, Nats, NatsSettings, Template};
use seriatim_testkit::servers::{self, Proxy};
use seriatim_testkit::sink_conformance::{SinkHarness, at, change};

static NUMBER: AtomicU32 = AtomicU32::new(0);
static SERVER: Mutex<Weak<servers::Nats>> = Mutex::new(Weak::new());

fn server() -> Arc<servers::Nats> {
    let mut running = SERVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(servers::Nats::start().unwrap());
        *running = Arc::downgrade(&server);
        server
    })
}

/// A stream of its own on a server that tests share.
struct Stream {
    name: String,
    url: String,
    /// Between the sink and the server.
    proxy: Proxy,
    _server: Option<Arc<servers::Nats>>,
}

impl Stream {
    fn new() -> Self {
        let server = server();
        let name = format!("T{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let proxy = Proxy::before(server.port()).unwrap();
        Stream { name, url: server.url(), proxy, _server: Some(server) }
    }

    async fn link(&self) -> JetStream {
        jetstream::new(async_nats::connect(&self.url).await.unwrap())
    }

    fn config(&self) -> Config {
        let subjects = vec![format!("{}.>", self.name)];
        Config { name: self.name.clone(), subjects, ..Config::default() }
    }

    /// Makes the stream where there is none.
    async fn made(&self, config: Config) {
        self.link().await.get_or_create_stream(config).await.unwrap();
    }

    fn settings(&self, generation: u64) -> NatsSettings {
        NatsSettings {
            url: format!("nats://127.0.0.1:{}", self.proxy.port()),
            subject: Template::parse(&format!("{}.orders.{{id}}", self.name)).unwrap(),
            credentials: None,
            envelope: Envelope::default(),
            generations: Some(Arc::new(Generation(generation))),
        }
    }

    fn sink(&self, generation: u64) -> Nats {
        Nats::new(self.settings(generation)).unwrap()
    }

    /// All messages, in the order of the stream.
    async fn messages(&self) -> Vec<jetstream::message::StreamMessage> {
        let mut stream = self.link().await.get_stream(&self.name).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut messages = Vec::new();
        for sequence in 1..=last {
            if let Ok(message) = stream.get_raw_message(sequence).await {
                messages.push(message);
            }
        }
        messages
    }
}

#[async_trait]
impl SinkHarness for Stream {
    async fn open(&self, generation: u64) -> Arc<dyn Handler> {
        self.made(self.config()).await;
        Arc::new(self.sink(generation))
    }

    async fn read(&self) -> Vec<(i64, u64)> {
        let read = |message: &jetstream::message::StreamMessage| {
            let object = message.subject.rsplit('.').next().unwrap().parse().unwrap();
            (object, message.headers.get("Seriatim-Id").unwrap().as_str().parse().unwrap())
        };
        self.messages().await.iter().map(read).collect()
    }

    fn take_away(&self) {
        self.proxy.close();
    }

    fn bring_back(&self) {
        self.proxy.open();
    }

    fn lose_next_answer(&self) {
        self.proxy.lose_answer_to(&format!("HPUB {}", self.name));
    }

    fn too_large(&self) -> usize {
        300_000
    }

    fn refuses_old_epochs(&self) -> bool {
        false
    }
}

seriatim_testkit::sink_conformance!(Stream::new());

#[tokio::test]
async fn a_duplicate_after_the_window_of_the_stream_is_refused_by_its_sequence() {
    let stream = Stream::new();
    stream.made(Config { duplicate_window: Duration::from_millis(100), ..stream.config() }).await;
    stream.sink(1).handle(&[change(1, 1)], &at(0, 2)).await.unwrap();
    // There is nothing to wait for: the stream forgets by its clock.
    tokio::time::sleep(Duration::from_millis(400)).await;
    stream.sink(1).handle(&[change(1, 1)], &at(0, 3)).await.unwrap();
    assert_eq!(stream.read().await, [(1, 1)]);
}

#[tokio::test]
async fn a_message_of_which_the_server_knows_only_the_id_is_sent_again() {
    let stream = Stream::new();
    stream.made(stream.config()).await;
    stream.sink(1).handle(&[change(1, 1)], &at(0, 2)).await.unwrap();
    // As after a change of leaders that lost the message and kept its id.
    let made = stream.link().await.get_stream(&stream.name).await.unwrap();
    made.delete_message(1).await.unwrap();
    assert_eq!(stream.read().await, []);
    stream.sink(1).handle(&[change(1, 1)], &at(0, 3)).await.unwrap();
    assert_eq!(stream.read().await, [(1, 1)]);
}

#[tokio::test]
async fn a_subject_without_a_stream_is_refused() {
    let stream = Stream::new();
    let failure = stream.sink(1).reach().await.unwrap_err();
    assert!(failure.to_string().contains("no stream takes the subjects"), "{failure}");
    let failure = stream.sink(1).handle(&[change(1, 1)], &at(0, 2)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Target, "{failure}");
}

#[tokio::test]
async fn exactly_once_is_said_only_where_the_stream_keeps_the_last_message() {
    let stream = Stream::new();
    stream.made(stream.config()).await;
    assert_eq!(stream.sink(1).guarantee(true).await, Guarantee::ExactlyOnce);
    assert_eq!(stream.sink(1).guarantee(false).await, Guarantee::AtLeastOnce);
    assert!(!stream.sink(1).risks().await.is_empty(), "one replica");
    let aging = Stream::new();
    aging.made(Config { max_age: Duration::from_secs(60), ..aging.config() }).await;
    assert_eq!(aging.sink(1).guarantee(true).await, Guarantee::Deduplicated);
}

#[tokio::test]
async fn a_subject_that_others_write_to_is_not_guessed_at() {
    let stream = Stream::new();
    stream.made(stream.config()).await;
    let subject = format!("{}.orders.1", stream.name);
    stream.link().await.publish(subject, "not ours".into()).await.unwrap().await.unwrap();
    let failure = stream.sink(1).handle(&[change(1, 1)], &at(0, 2)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Change);
    assert!(failure.to_string().contains("subjects of its own"), "{failure}");
}

#[tokio::test]
async fn any_key_is_one_part_of_a_subject_and_attributes_are_headers() {
    let stream = Stream::new();
    stream.made(stream.config()).await;
    let envelope = Envelope::new(Format::CloudEvents, Default::default()).in_mode(Mode::Binary);
    let sink = Nats::new(NatsSettings { envelope, ..stream.settings(1) }).unwrap();
    let odd = Change { key: Some(Key::of("id", Value::Text("a.b *>ü".into()))), ..change(1, 1) };
    for _ in 0..2 {
        sink.handle(std::slice::from_ref(&odd), &at(0, 2)).await.unwrap();
    }
    let messages = stream.messages().await;
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(message.subject.as_str(), format!("{}.orders.a%2Eb%20%2A%3E%C3%BC", stream.name));
    assert_eq!(message.headers.get("ce-type").unwrap().as_str(), "seriatim.update");
    assert_eq!(message.payload, odd.to_json().as_bytes());
}

#[tokio::test]
async fn a_server_that_is_killed_after_its_answer_has_every_change_once() {
    let mut server = servers::Nats::start().unwrap();
    let proxy = Proxy::before(server.port()).unwrap();
    let stream = Stream { name: "KILLED".to_owned(), url: server.url(), proxy, _server: None };
    let sink = stream.open(1).await;
    for id in 1..16u64 {
        if id % 5 == 0 {
            server.restart().unwrap();
        }
        let mut tries = 0;
        while let Err(failure) = sink.handle(&[change(id as i64 % 3, id)], &at(0, 2)).await {
            tries += 1;
            assert!(tries < 200, "{failure}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let ids: Vec<u64> = stream.read().await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, (1..16).collect::<Vec<_>>());
}
