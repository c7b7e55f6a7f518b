//! Handlers that are webhooks, against a real server that is slow, broken, busy, elsewhere, or not who it says it is.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::handling::{Running, eventually, parked, program, run_once, shop_with};
use crate::server::{Answer, Request, Server, answer};
use crate::shop::Shop;

fn shop_for(server: &Server, settings: &str) -> Shop {
    shop_with(&format!("webhook = \"{}/in?token=s3cret\"\n{settings}", server.address()))
}

/// The ids of all changes that a request brought.
fn ids(request: &Request) -> Vec<u64> {
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    let one = std::slice::from_ref(&body);
    body.as_array().map_or(one, Vec::as_slice).iter().map(|change| change["id"].as_u64().unwrap()).collect()
}

/// The ids of all changes that any of these requests brought.
fn all_ids(requests: &[Request]) -> HashSet<u64> {
    requests.iter().flat_map(ids).collect()
}

fn keys(requests: &[Request]) -> Vec<&str> {
    requests.iter().map(|request| request.header("idempotency-key")).collect()
}

/// One partition, so that all three orders come in one request.
fn in_one_batch(shop: Shop) -> Shop {
    shop.reconfigure("partitions = 2", "partitions = 1");
    shop
}

#[test]
fn a_webhook_gets_changes_as_an_array_with_headers_that_say_what_they_are() {
    let server = Server::start(|_| answer(200));
    let shop =
        in_one_batch(shop_for(&server, "secret = \"Jefe\"\nheaders = { Authorization = \"Bearer t0ken\" }"));
    let ran = run_once(&shop).expect(0, &["at-least-once"]);
    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/in?token=s3cret"));
    assert_eq!(ids(request).len(), 3);
    assert!(request.body.starts_with(r#"[{"feed":"totals","partition":0,"#), "{}", request.body);
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("authorization"), "Bearer t0ken");
    assert_eq!((request.header("seriatim-feed"), request.header("seriatim-partition")), ("totals", "0"));
    assert_eq!(request.header("seriatim-epoch"), "1");
    assert!(request.header("idempotency-key").starts_with("totals/0/"));
    assert!(request.header("seriatim-signature").starts_with("sha256="));
    for secret in ["s3cret", "t0ken", "Jefe"] {
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    }
}

#[test]
fn with_batches_of_one_the_body_is_one_object_and_connections_are_kept() {
    let server = Server::start(|_| answer(204));
    let shop = shop_for(&server, "batch = 1\nconcurrency = 1");
    shop.reconfigure("partitions = 2", "partitions = 1");
    run_once(&shop).expect(0, &[]);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let id = ids(request)[0];
        assert!(request.body.starts_with('{'), "{}", request.body);
        assert_eq!(request.header("idempotency-key"), format!("totals/0/{id}-{id}"));
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_error_of_the_server_is_tried_again_with_the_same_key() {
    let server = Server::start(|n| answer(if n == 0 { 500 } else { 200 }));
    let shop = in_one_batch(shop_for(&server, ""));
    run_once(&shop).expect(0, &["answered 500 Internal Server Error", "the same request comes once more"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((keys(&requests)[0], &requests[0].body), (keys(&requests)[1], &requests[1].body));
    assert_eq!(parked(&shop), 0);
}

#[test]
fn an_error_of_the_server_for_one_change_parks_that_one_with_its_words() {
    let server = Server::start_with(|_, request| match request.body.contains(r#""key":{"id":2}"#) {
        true => answer(500).body("no such customer"),
        false => answer(200),
    });
    let shop = in_one_batch(shop_for(&server, ""));
    run_once(&shop).expect(1, &["/in answered 500 Internal Server Error: no such customer"]);
    assert_eq!(parked(&shop), 1);
    assert_eq!(all_ids(&server.accepted()).len(), 2, "the others are done");
}

#[test]
fn a_server_that_answers_too_late_gets_the_same_again_with_the_same_key() {
    // It does the work, and only its answer is late.
    let server = Server::start(|n| if n == 0 { Answer::Never } else { answer(200) });
    let shop = shop_for(&server, "timeout = \"2s\"\nbatch = 1");
    run_once(&shop).expect(0, &["did not answer within 2s; whether it has done the work is not known"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    let late = keys(&requests)[0];
    assert_eq!(keys(&requests).iter().filter(|key| **key == late).count(), 2);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn a_batch_whose_answer_is_late_comes_again_as_it_was() {
    let server = Server::start(|n| if n == 0 { Answer::Never } else { answer(200) });
    let shop = in_one_batch(shop_for(&server, "timeout = \"2s\""));
    run_once(&shop).expect(0, &["did not answer within 2s", "the same request comes once more"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((keys(&requests)[0], &requests[0].body), (keys(&requests)[1], &requests[1].body));
}

#[test]
fn half_an_answer_is_none() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it";
    let server = Server::start(move |n| if n == 0 { Answer::Raw(half.to_vec()) } else { answer(200) });
    let shop = shop_for(&server, "batch = 1");
    run_once(&shop)
        .expect(0, &["broke off before its answer was whole", "whether it has done the work is not known"]);
    assert_eq!(server.requests().len(), 4);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn a_long_answer_is_not_read_to_its_end() {
    let server = Server::start(|_| answer(200).body(&"x".repeat(10_000_000)));
    let shop = in_one_batch(shop_for(&server, ""));
    run_once(&shop).expect(0, &[]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let server = Server::start(|n| if n == 0 { answer(429).header("Retry-After", "1") } else { answer(200) });
    let shop = in_one_batch(shop_for(&server, ""));
    run_once(&shop).expect(0, &["answered 429 Too Many Requests"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let waited = requests[1].at - requests[0].at;
    assert!(waited >= Duration::from_secs(1), "it came back after {waited:?}");
    assert_eq!(keys(&requests)[0], keys(&requests)[1]);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn what_the_server_will_never_accept_is_parked_at_once() {
    let server = Server::start_with(|_, request| match request.body.contains(r#""key":{"id":2}"#) {
        true => answer(422).body("amounts must be odd"),
        false => answer(200),
    });
    let shop = shop_for(&server, "batch = 1");
    run_once(&shop).expect(1, &["answered 422 Unprocessable Entity: amounts must be odd"]);
    assert_eq!((parked(&shop), server.requests().len()), (1, 3));
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(|_| answer(200));
    let place = format!("{}/other?token=other-secret", elsewhere.address());
    let server = Server::start(move |_| answer(307).header("Location", &place));
    let shop = shop_for(&server, "");
    let running = Running::start(&shop, "run");
    running.says("redirects are not followed, so name the final address in the configuration");
    running.says(&format!("points to {}/other:", elsewhere.address()));
    assert!(elsewhere.requests().is_empty());
    assert_eq!(parked(&shop), 0);
    assert!(!running.log().contains("secret"), "{}", running.log());
    running.stop().expect(0, &[]);
}

#[test]
fn a_server_that_nobody_vouches_for_gets_nothing() {
    let server = Server::start_tls(|_| answer(200));
    let shop = shop_for(&server, "");
    let running = Running::start(&shop, "run");
    running.says("cannot be reached: invalid peer certificate: UnknownIssuer");
    assert!(server.requests().is_empty());
    assert_eq!(parked(&shop), 0);
    shop.run("check").expect(1, &["invalid peer certificate", "feed.totals.handler.webhook"]);
    running.stop().expect(0, &[]);
}

#[test]
fn a_server_that_somebody_vouches_for_gets_everything() {
    let server = Server::start_tls(|_| answer(200));
    let shop = shop_for(&server, "");
    std::fs::write(shop.path("ca.pem"), server.certificate()).unwrap();
    let line = "run --once";
    let ran = program(&shop, line).env("SSL_CERT_FILE", shop.path("ca.pem")).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(all_ids(&server.requests()).len(), 3);
}

#[test]
fn a_target_that_is_down_for_a_while_costs_nothing() {
    let (address, port) = Server::a_free_port();
    let shop = shop_with(&format!("webhook = \"{address}/\""));
    shop.run("check").expect(1, &["cannot be reached: Connection refused", "start what is to listen there"]);
    let running = Running::start(&shop, "run");
    running.says("cannot be reached: Connection refused");
    shop.sql("update orders set amount = amount + 1; delete from orders where id = 3;");
    assert_eq!(parked(&shop), 0);
    let server = Server::start_at(port, |_| answer(200));
    eventually("all is delivered", || all_ids(&server.requests()).len() == 7, || running.log());
    running.stop().expect(0, &[]);
    assert_eq!(parked(&shop), 0);
    shop.run("check").expect(0, &[]);
}

#[test]
fn what_waits_for_a_target_that_is_down_is_not_in_memory() {
    let (address, port) = Server::a_free_port();
    let shop = shop_with(&format!("webhook = \"{address}/\""));
    shop.sql("alter table orders add column note text");
    // 40 MB, so that whatever may be kept in memory is there, and then as much again.
    let write = |orders: u64| {
        let rows =
            format!("with recursive n (i) as (select 1 union all select i + 1 from n where i < {orders})");
        shop.sql(&format!("{rows} insert into orders (amount, note) select i, hex(zeroblob(2000)) from n"));
    };
    write(10_000);
    let running = Running::start(&shop, "run");
    running.says("cannot be reached: Connection refused");
    running.says_again("cannot be reached", 1);
    let before = running.memory();
    write(10_000);
    running.says_again("cannot be reached", 2);
    let after = running.memory();
    assert!(after < before + 20, "from {before} to {after} MiB");
    assert_eq!(parked(&shop), 0);
    let delivered: Arc<Mutex<HashSet<u64>>> = Arc::default();
    let noted = Arc::clone(&delivered);
    let _server = Server::start_at_with(port, move |_, request| {
        noted.lock().unwrap().extend(ids(request));
        answer(200)
    });
    eventually("all is delivered", || delivered.lock().unwrap().len() == 20_003, || running.log());
    running.stop().expect(0, &[]);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn a_secret_in_a_variable_that_is_not_set_is_refused() {
    let shop = shop_with("webhook = \"http://127.0.0.1:1/\"\nsecret_env = \"SHOP_SECRET\"");
    shop.run("run --once").expect(2, &["secret_env names the variable SHOP_SECRET, which is not set"]);
}

#[test]
fn a_host_killed_before_its_checkpoint_is_followed_by_the_same_ids() {
    // The answer to the first request never comes: its host is killed while it waits.
    let server = Server::start(|n| if n == 0 { Answer::Never } else { answer(200) });
    let shop = shop_for(&server, "batch = 1\nconcurrency = 1");
    shop.reconfigure("partitions = 2", "partitions = 1");
    let running = Running::start(&shop, "run");
    eventually("it was asked", || server.requests().len() == 1, || running.log());
    drop(running);
    run_once(&shop).expect(0, &[]);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(keys(&requests)[0], keys(&requests)[1]);
    let epochs: Vec<&str> = requests.iter().map(|request| request.header("seriatim-epoch")).collect();
    assert_eq!(epochs, ["1", "2", "2", "2"]);
}

/// A Python with the library of Standard Webhooks.
fn python() -> std::path::PathBuf {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/python/bin/python");
    let python =
        std::env::var_os("SERIATIM_PYTHON").map_or_else(|| installed.into(), std::path::PathBuf::from);
    let install = "python3 -m venv target/servers/python && target/servers/python/bin/pip install standardwebhooks==1.1.0";
    assert!(python.exists(), "there is no {}: run {install}", python.display());
    python
}

/// Whether the library, with this secret, accepts a request as it was sent.
fn is_accepted(request: &Request, secret: &str) -> bool {
    const VERIFY: &str = "import json, sys; from standardwebhooks.webhooks import Webhook
secret, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
Webhook(secret if secret.startswith('whsec_') else secret.encode()).verify(body, headers)";
    let header = |name: &str| (name.to_owned(), request.header(name).into());
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers = serde_json::Value::Object(names.into_iter().map(header).collect()).to_string();
    let mut verify = std::process::Command::new(python());
    let verified = verify.args(["-c", VERIFY, secret, &headers, &request.body]).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() || said.contains("WebhookVerificationError"), "{said}");
    verified.status.success()
}

#[test]
fn the_library_of_standard_webhooks_accepts_what_is_sent() {
    let (new, old) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "an older one, as it stands");
    let server = Server::start(|n| answer(if n == 0 { 500 } else { 200 }));
    let shop = in_one_batch(shop_for(&server, &format!("secret = [\"{new}\", \"{old}\"]")));
    run_once(&shop).expect(0, &[]);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert!(is_accepted(request, new) && is_accepted(request, old), "{request:?}");
        assert!(!is_accepted(request, "whsec_bm90IHRoZSBzZWNyZXQ="));
        let mut forged = request.clone();
        forged.body = forged.body.replace("10", "11");
        assert!(!is_accepted(&forged, new));
        assert_eq!(request.header("webhook-id"), request.header("idempotency-key"));
    }
    let [first, second] = [&requests[0], &requests[1]];
    assert_eq!(
        first.header("webhook-id"),
        second.header("webhook-id"),
        "it names the changes, not the attempt"
    );
}

#[test]
fn without_a_secret_a_request_has_an_id_and_a_time_and_no_signature() {
    let server = Server::start(|_| answer(200));
    let shop = in_one_batch(shop_for(&server, ""));
    run_once(&shop).expect(0, &[]);
    let request = &server.requests()[0];
    let sent: i64 = request.header("webhook-timestamp").parse().unwrap();
    let now = seriatim::clock::wall().as_second();
    assert!((now - 60..=now).contains(&sent), "{sent}");
    assert!(!request.header("webhook-id").is_empty());
    assert!(!format!("{request:?}").contains("signature"), "{request:?}");
}
