//! SQS from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use seriatim_testkit::servers::Sqs;

use crate::handling::{Running, eventually, program, run_once, shop_with};
use crate::shop::Shop;

/// It looks for the service in here, and does not check it.
const SIGNED: &str = "authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";

/// Asks SQS for something, in its own words.
fn ask(server: &Sqs, what: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{SIGNED}\r\nx-amz-target: AmazonSQS.{what}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let (mut lines, mut line) = (BufReader::new(stream), String::new());
    while lines.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
        line.clear();
    }
    let mut answer = String::new();
    lines.read_to_string(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

fn make_queue(server: &Sqs) {
    let made =
        ask(server, "CreateQueue", &json!({"QueueName": "orders.fifo", "Attributes": {"FifoQueue": "true"}}));
    assert!(made["QueueUrl"].is_string(), "{made}");
}

/// How many messages are in the queue.
fn messages(server: &Sqs) -> u64 {
    let asked = json!({"QueueUrl": server.queue("orders.fifo"), "AttributeNames": ["All"]});
    let told = ask(server, "GetQueueAttributes", &asked);
    told["Attributes"]["ApproximateNumberOfMessages"].as_str().unwrap().parse().unwrap()
}

/// The ids of each group, in the order in which a consumer gets them.
fn histories(server: &Sqs) -> std::collections::BTreeMap<String, Vec<u64>> {
    let (queue, mut histories) = (server.queue("orders.fifo"), std::collections::BTreeMap::new());
    loop {
        let asked = json!({"QueueUrl": queue, "MaxNumberOfMessages": 10, "AttributeNames": ["All"]});
        let told = ask(server, "ReceiveMessage", &asked);
        let Some(messages) = told["Messages"].as_array().filter(|some| !some.is_empty()) else {
            return histories;
        };
        for message in messages {
            let change: Value = serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
            let group = message["Attributes"]["MessageGroupId"].as_str().unwrap().to_owned();
            histories.entry(group).or_insert_with(Vec::new).push(change["id"].as_u64().unwrap());
            let handle = &message["ReceiptHandle"];
            ask(server, "DeleteMessage", &json!({"QueueUrl": queue, "ReceiptHandle": handle}));
        }
    }
}

fn shop(server: &Sqs, more: &str) -> Shop {
    shop_with(&format!("sqs = \"{}\"\n{more}", server.queue("orders.fifo")))
}

#[test]
fn a_queue_gets_every_change_once_and_once_more_after_a_rewind() {
    let server = Sqs::start().unwrap();
    let shop = shop(&server, "");
    shop.run("check").expect(1, &["NonExistentQueue", "create-queue"]);
    make_queue(&server);
    shop.run("check").expect(0, &["deduplicated"]);
    run_once(&shop).expect(0, &["deduplicated"]);
    let status = shop.run("status --json").expect(0, &[]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((messages(&server), status["feeds"][0]["guarantee"].as_str()), (3, Some("deduplicated")));
    shop.run("rewind totals --to beginning").expect(0, &[]);
    run_once(&shop).expect(0, &[]);
    assert_eq!(messages(&server), 6, "a rewind has them come again");
}

#[test]
fn hosts_that_are_killed_in_the_middle_leave_every_change_once_and_in_order() {
    let server = Sqs::start().unwrap();
    make_queue(&server);
    let shop = shop(&server, "batch = 7\nconcurrency = 3");
    shop.run("watch").expect(0, &[]);
    for round in 0..3 {
        let writes: String = (0..60)
            .map(|write| format!("update orders set amount = amount + 1 where id = {};", write % 3 + 1))
            .collect();
        shop.sql(&format!("begin; {writes} commit;"));
        let before = messages(&server);
        let mut host = Running::start(&shop, "run");
        eventually("some are sent", || messages(&server) > before + round * 10, || host.log());
        host.kill();
    }
    run_once(&shop).expect(0, &[]);
    let histories = histories(&server);
    assert_eq!(histories.values().map(Vec::len).sum::<usize>(), 183);
    for (group, ids) in histories {
        // A row that existed has an id above all of its changes.
        assert!(ids[1..].is_sorted_by(|id, next| id < next), "group {group}: {ids:?}");
    }
}

#[test]
fn the_endpoint_is_that_of_the_environment() {
    let server = Sqs::start().unwrap();
    make_queue(&server);
    let shop = shop_with("sqs = \"https://sqs.us-east-1.amazonaws.com/123456789012/orders.fifo\"");
    shop.run("check").expect(1, &["handler.sqs has no credentials", "AWS_ACCESS_KEY_ID"]);
    let mut host = program(&shop, "run --once");
    host.env("AWS_ENDPOINT_URL_SQS", server.endpoint());
    host.env("AWS_ACCESS_KEY_ID", "AK").env("AWS_SECRET_ACCESS_KEY", "s3cret");
    let ran = host.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success() && !said.contains("s3cret"), "{said}");
    assert_eq!(messages(&server), 3);
}

#[test]
fn what_keeps_no_order_is_refused() {
    let said = |handler: &str, words: &[&str]| {
        shop_with(handler).run("check").expect(2, words);
    };
    let queue = "sqs = \"http://127.0.0.1:1/1/orders";
    said(&format!("{queue}\""), &["handler.sqs is a standard queue, which keeps no order", ".fifo"]);
    said("sqs = \"orders.fifo\"", &["handler.sqs is no URL of a queue"]);
    let grouped = shop_with(&format!("{queue}.fifo\"\nkey = \"{{amount}}\""));
    grouped.run("check").expect(1, &["\"amount\", which is not of the object's key", "lose its order"]);
}
