//! SQS against `moto`, and against a queue that refuses parts of requests, which `moto` never does.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use serde_json::{Value, json};
use seriatim::handler::FailureKind;
use seriatim::{Change, Handler};
use seriatim_handlers::sqs::QueueAddress;
use seriatim_handlers::{Envelope, Generation, Sqs, SqsSettings};
use seriatim_testkit::servers::{self, Proxy};
use seriatim_testkit::sink_conformance::{SinkHarness, at, change};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

static NUMBER: AtomicU32 = AtomicU32::new(0);
static SERVER: Mutex<Weak<servers::Sqs>> = Mutex::new(Weak::new());

fn server() -> Arc<servers::Sqs> {
    let mut running = SERVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(servers::Sqs::start().unwrap());
        *running = Arc::downgrade(&server);
        server
    })
}

/// A queue of its own on a server that tests share.
struct Queue {
    name: String,
    /// Between the sink and the server.
    proxy: Proxy,
    server: Arc<servers::Sqs>,
    /// What a consumer has read so far: reading takes it out.
    read: tokio::sync::Mutex<Vec<(String, Change3)>>,
}

/// The id of a change, the number that its message has in the queue, and its body.
type Change3 = (u64, String, String);

fn settings(url: &str, endpoint: Option<String>, generation: Option<u64>) -> SqsSettings {
    SqsSettings {
        queue: QueueAddress::parse(url, endpoint, |_| None).unwrap(),
        group: None,
        envelope: Envelope::default(),
        generations: generation.map(|generation| Arc::new(Generation(generation)) as _),
    }
}

impl Queue {
    fn new() -> Self {
        let server = server();
        let name = format!("orders-{}.fifo", NUMBER.fetch_add(1, Ordering::Relaxed));
        let proxy = Proxy::before(server.port()).unwrap();
        Queue { name, proxy, server, read: tokio::sync::Mutex::default() }
    }

    fn url(&self) -> String {
        self.server.queue(&self.name)
    }

    fn client(&self) -> Client {
        QueueAddress::parse(&self.url(), None, |_| None).unwrap().client()
    }

    async fn made(&self) {
        let make = self.client().create_queue().queue_name(&self.name);
        make.attributes(QueueAttributeName::FifoQueue, "true").send().await.unwrap();
    }

    fn sink(&self, generation: Option<u64>) -> Sqs {
        let endpoint = format!("http://127.0.0.1:{}", self.proxy.port());
        Sqs::new(settings(&self.url(), Some(endpoint), generation))
    }

    /// All messages so far: their groups, ids and bodies, in the order in which a consumer gets them.
    async fn messages(&self) -> Vec<(String, Change3)> {
        let (client, mut read) = (self.client(), self.read.lock().await);
        loop {
            let some = client.receive_message().queue_url(self.url()).max_number_of_messages(10);
            let some = some.message_system_attribute_names(MessageSystemAttributeName::All);
            let some = some.message_attribute_names("All").send().await.unwrap();
            if some.messages().is_empty() {
                return read.clone();
            }
            for message in some.messages() {
                let system = |name| message.attributes().unwrap().get(&name).unwrap().clone();
                let id = message.message_attributes().unwrap()["seriatim-id"].string_value().unwrap();
                let id = (
                    id.parse().unwrap(),
                    system(MessageSystemAttributeName::SequenceNumber),
                    message.body().unwrap().to_owned(),
                );
                read.push((system(MessageSystemAttributeName::MessageGroupId), id));
                let done = client.delete_message().queue_url(self.url());
                done.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
            }
        }
    }
}

#[async_trait]
impl SinkHarness for Queue {
    async fn open(&self, generation: u64) -> Arc<dyn Handler> {
        self.made().await;
        Arc::new(self.sink(Some(generation)))
    }

    async fn read(&self) -> Vec<(i64, u64)> {
        let number = |(group, (id, ..)): &(String, Change3)| (group.parse().unwrap(), *id);
        self.messages().await.iter().map(number).collect()
    }

    fn take_away(&self) {
        self.proxy.close();
    }

    fn bring_back(&self) {
        self.proxy.open();
    }

    fn lose_next_answer(&self) {
        self.proxy.lose_answer_to("SendMessageBatch");
    }

    fn too_large(&self) -> usize {
        1 << 20
    }

    fn refuses_old_epochs(&self) -> bool {
        false
    }
}

// SQS knows a message by its id for five minutes and has no memory beside it, so what is sent of a life before is a message.
seriatim_testkit::sink_promises! { Queue::new();
    changes_of_an_object_are_held_in_order, a_change_that_is_sent_again_is_held_once,
    a_batch_of_which_a_part_is_held_adds_the_rest, a_late_sending_adds_nothing,
    a_zombie_adds_nothing_that_its_successor_does_not_expect, an_answer_that_is_lost_costs_nothing,
    a_target_that_is_away_is_waited_for, a_change_that_is_too_large_is_parked_and_the_others_go_on,
    what_was_parked_is_held_once_also_from_another_partition,
}

#[tokio::test]
async fn a_rewound_feed_is_sent_once_more() {
    let queue = Queue::new();
    let batch = [change(1, 1), change(1, 2)];
    for generation in [1, 1, 2] {
        queue.open(generation).await.handle(&batch, &at(0, 2)).await.unwrap();
    }
    assert_eq!(queue.read().await, [(1, 1), (1, 2), (1, 1), (1, 2)]);
}

#[tokio::test]
async fn where_ids_do_not_tell_changes_apart_every_sending_is_a_message() {
    let queue = Queue::new();
    queue.made().await;
    for _ in 0..2 {
        queue.sink(None).handle(&[change(1, 5)], &at(0, 2)).await.unwrap();
    }
    assert_eq!(queue.read().await, [(1, 5), (1, 5)]);
}

#[tokio::test]
async fn a_message_is_the_change_itself() {
    let queue = Queue::new();
    let sent = change(1, 5);
    queue.open(1).await.handle(std::slice::from_ref(&sent), &at(0, 2)).await.unwrap();
    let messages = queue.messages().await;
    let [(group, (5, _, body))] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!((group.as_str(), body.as_str()), ("1", sent.to_json().as_str()));
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_the_targets_fault() {
    let queue = Queue::new();
    let failure = queue.sink(Some(1)).reach().await.unwrap_err();
    assert!(failure.to_string().contains("make it, such as with `aws sqs create-queue`"), "{failure}");
    let failure = queue.sink(Some(1)).handle(&[change(1, 1)], &at(0, 2)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Target, "{failure}");
    queue.made().await;
    queue.sink(Some(1)).reach().await.unwrap();
}

/// A queue that takes each request, but refuses these ids when they come for the first time.
struct Refusing {
    url: String,
    held: Arc<Mutex<BTreeMap<String, Vec<u64>>>>,
}

impl Refusing {
    async fn start(refused: impl IntoIterator<Item = u64>, code: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/1/orders.fifo", listener.local_addr().unwrap());
        let held = Arc::new(Mutex::default());
        let refused = Arc::new(Mutex::new(refused.into_iter().collect::<HashSet<u64>>()));
        let kept = Arc::clone(&held);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&refused), code));
            }
        });
        Refusing { url, held }
    }

    fn of(&self, group: &str) -> Vec<u64> {
        self.held.lock().unwrap().get(group).cloned().unwrap_or_default()
    }
}

async fn serve(
    stream: TcpStream,
    held: Arc<Mutex<BTreeMap<String, Vec<u64>>>>,
    refused: Arc<Mutex<HashSet<u64>>>,
    code: &'static str,
) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) && line != "\r\n" {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let answer = answer(&serde_json::from_slice(&body).unwrap(), &held, &refused, code).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
    }
}

fn answer(
    request: &Value,
    held: &Mutex<BTreeMap<String, Vec<u64>>>,
    refused: &Mutex<HashSet<u64>>,
    code: &str,
) -> Value {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for entry in request["Entries"].as_array().unwrap() {
        let id = entry["MessageAttributes"]["seriatim-id"]["StringValue"].as_str().unwrap().parse().unwrap();
        if refused.lock().unwrap().remove(&id) {
            bad.push(json!({"Id": entry["Id"], "Code": code, "SenderFault": false}));
            continue;
        }
        let group = entry["MessageGroupId"].as_str().unwrap().to_owned();
        held.lock().unwrap().entry(group).or_default().push(id);
        good.push(json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "0"}));
    }
    json!({"Successful": good, "Failed": bad})
}

#[tokio::test]
async fn a_partial_batch_keeps_the_order_of_its_group() {
    for code in ["InternalError", "InvalidMessageContents"] {
        let queue = Refusing::start([1, 8, 14], code).await;
        let sink = Sqs::new(settings(&queue.url, None, Some(1)));
        let mut rest: Vec<Change> = (1..21).map(|id| change(id as i64 % 3, id)).collect();
        let mut failures = 0;
        // As a host does it: what is done is not sent again, and the rest is.
        while let Err(failure) = sink.handle(&rest, &at(0, 2)).await {
            failures += 1;
            assert!(failures < 10, "{failure}");
            let culprit = failure.culprit.unwrap();
            let place = |index: usize| index >= culprit && !failure.done.contains(&index);
            rest = rest
                .into_iter()
                .enumerate()
                .filter(|(index, _)| place(*index))
                .map(|(_, change)| change)
                .collect();
        }
        assert!(failures > 0, "it refused nothing");
        for object in 0..3u64 {
            let expected: Vec<u64> = (1..21).filter(|id| id % 3 == object).collect();
            assert_eq!(queue.of(&object.to_string()), expected, "{code}");
        }
    }
}
