//! The API and the page as clients see them, over a store in memory.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use seriatim::store::{Checkpoint, ParkedFailure, ParkedState, Parking};
use seriatim::value::Value as Value_;
use seriatim::{Change, Columns, FeedName, HostName, Key, MemoryStore, Op, Partition, Position, Row, Store};
use seriatim_dashboard::{Dashboard, StorePanel};
use tower::ServiceExt as _;

async fn dashboard() -> Dashboard {
    let store = MemoryStore::new();
    store.ensure(&FeedName::new("orders").unwrap(), 2, &Position::text("0")).await.unwrap();
    Dashboard::new(StorePanel::new(Arc::new(store))).open_reads(true).token("alice", "secret")
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:9465")
}

async fn send(router: &Router, request: Request<Body>) -> Response {
    router.clone().oneshot(request).await.unwrap()
}

async fn get(router: &Router, path: &str) -> (StatusCode, String) {
    let response = send(router, request(Method::GET, path).body(Body::empty()).unwrap()).await;
    text(response).await
}

async fn text(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn act(router: &Router, path: &str, body: &Value, token: Option<&str>) -> (StatusCode, Value) {
    let mut request = request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let response = send(router, request.body(Body::from(body.to_string())).unwrap()).await;
    let (status, text) = text(response).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[tokio::test]
async fn whoever_reads_on_loopback_needs_nothing_and_whoever_acts_needs_a_token() {
    let router = dashboard().await.router();
    let (status, body) = get(&router, "/api/v1/status").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["feeds"][0]["name"], "orders");
    let retry = json!({"feed": "orders", "all": true});
    for token in [None, Some("wrong"), Some("")] {
        let (status, body) = act(&router, "/api/v1/parked/retry", &retry, token).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{token:?} {body}");
    }
    let (status, body) = act(&router, "/api/v1/parked/retry", &retry, Some("secret")).await;
    assert_eq!((status, &body["objects"]), (StatusCode::OK, &json!(0)), "{body}");
}

#[tokio::test]
async fn a_page_that_only_shows_lets_nobody_act() {
    let router = dashboard().await.read_only(true).router();
    for token in [None, Some("secret")] {
        let (status, _) =
            act(&router, "/api/v1/parked/retry", &json!({"feed": "orders", "all": true}), token).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    assert_eq!(get(&router, "/").await.0, StatusCode::OK);
}

#[tokio::test]
async fn where_reads_are_not_open_they_need_a_token_too() {
    let router = dashboard().await.open_reads(false).router();
    assert_eq!(get(&router, "/api/v1/status").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(get(&router, "/api/v1/feeds/assets/objects?key=1").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(get(&router, "/").await.0, StatusCode::SEE_OTHER);
    assert_eq!(get(&router, "/login").await.0, StatusCode::OK);
    assert_eq!(get(&router, "/assets/style.css").await.0, StatusCode::OK);
    let asked = request(Method::GET, "/api/v1/status").header(header::AUTHORIZATION, "Bearer secret");
    assert_eq!(send(&router, asked.body(Body::empty()).unwrap()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_name_that_somebody_bent_to_this_address_is_refused() {
    let router = dashboard().await.hosts(["127.0.0.1".to_owned(), "localhost".to_owned()]).router();
    assert_eq!(get(&router, "/api/v1/status").await.0, StatusCode::OK);
    for host in ["evil.example", "evil.example:9465", ""] {
        let asked = Request::builder().uri("/api/v1/status").header(header::HOST, host);
        let response = send(&router, asked.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{host:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_neither_reads_nor_acts() {
    let router = dashboard().await.router();
    for (method, path, mode, expected) in [
        (Method::GET, "/api/v1/status", "cors", StatusCode::FORBIDDEN),
        (Method::POST, "/act/retry", "navigate", StatusCode::FORBIDDEN),
        (Method::GET, "/", "navigate", StatusCode::OK),
    ] {
        let asked = request(method, path)
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", mode)
            .header(header::COOKIE, "seriatim_token=secret");
        let response = send(&router, asked.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), expected, "{path}");
    }
}

#[tokio::test]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let router = dashboard().await.router();
    for path in ["/", "/api/v1/status", "/assets/live.js", "/nothing"] {
        let response = send(&router, request(Method::GET, path).body(Body::empty()).unwrap()).await;
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}

#[tokio::test]
async fn under_a_base_path_every_link_begins_with_it() {
    let router = dashboard().await.base_path("/changes/").router();
    for path in
        ["/changes/", "/changes/hosts", "/changes/feeds/orders", "/changes/parked", "/changes/actions"]
    {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let links = page.split(['"', '\'']).filter(|part| part.starts_with('/'));
        for link in links {
            assert!(link.starts_with("/changes/") || link == "/changes", "{path}: {link}");
        }
    }
    assert_eq!(get(&router, "/changes/api/v1/status").await.0, StatusCode::OK);
    assert_eq!(get(&router, "/api/v1/status").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn whoever_signs_in_gets_a_cookie_that_no_script_reads() {
    let router = dashboard().await.router();
    let sign_in = |token: &str| {
        let form =
            request(Method::POST, "/login").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        form.body(Body::from(format!("token={token}"))).unwrap()
    };
    assert_eq!(send(&router, sign_in("wrong")).await.status(), StatusCode::UNAUTHORIZED);
    let response = send(&router, sign_in("secret")).await;
    let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let asked = request(Method::GET, "/").header(header::COOKIE, pair).body(Body::empty()).unwrap();
    assert!(text(send(&router, asked).await).await.1.contains("signed in as alice"));
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_answered_with_a_sentence() {
    let router = dashboard().await.router();
    for (path, body, expected) in [
        ("/api/v1/parked/retry", json!({"feed": "orders"}), StatusCode::BAD_REQUEST),
        ("/api/v1/parked/retry", json!({"feed": "none", "all": true}), StatusCode::NOT_FOUND),
        ("/api/v1/parked/retry", json!([1]), StatusCode::BAD_REQUEST),
        (
            "/api/v1/parked/discard",
            json!({"feed": "orders", "key": 1, "reason": " "}),
            StatusCode::BAD_REQUEST,
        ),
        (
            "/api/v1/leases/move",
            json!({"feed": "orders", "partition": 9, "host": "x"}),
            StatusCode::NOT_FOUND,
        ),
        ("/api/v1/feeds/orders/rewind", json!({}), StatusCode::BAD_REQUEST),
        ("/api/v1/nothing", json!({}), StatusCode::NOT_FOUND),
    ] {
        let (status, answer) = act(&router, path, &body, Some("secret")).await;
        assert_eq!(status, expected, "{path} {body}: {answer}");
        assert!(answer["error"].is_string(), "{path} {body}: {answer}");
    }
    let huge = "x".repeat(100 * 1024);
    let (status, _) = act(&router, "/api/v1/parked/retry", &json!({"feed": huge}), Some("secret")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(get(&router, "/api/v1/feeds/orders/objects?key=%7Bx").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        get(&router, "/api/v1/once").await.0,
        StatusCode::NOT_IMPLEMENTED,
        "a store alone has no ledger"
    );
}

#[tokio::test]
async fn what_somebody_did_is_kept_with_who_and_why() {
    let router = dashboard().await.router();
    let body = json!({"feed": "orders", "all": true, "reason": "the partner is back"});
    act(&router, "/api/v1/parked/retry", &body, Some("secret")).await;
    act(&router, "/api/v1/parked/retry", &json!({"feed": "none", "all": true}), Some("secret")).await;
    let actions: Vec<Value> = serde_json::from_str(&get(&router, "/api/v1/actions").await.1).unwrap();
    let shown: Vec<_> = actions.iter().map(|done| (&done["by"], &done["action"], &done["reason"])).collect();
    assert_eq!(shown[1], (&json!("alice"), &json!("retry"), &json!("the partner is back")));
    assert_eq!(actions[1]["outcome"], "done: 0 objects");
    assert!(actions[0]["outcome"].as_str().unwrap().starts_with("refused"));
    assert_eq!(actions.len(), 2);
}

#[tokio::test]
async fn the_description_names_every_path_and_no_other() {
    let router = dashboard().await.router();
    let document: Value = serde_json::from_str(&get(&router, "/api/v1/openapi.json").await.1).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = format!("/api/v1{}", path.replace("{feed}", "orders"));
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let asked = request(method.clone(), &path).header(header::AUTHORIZATION, "Bearer secret");
            let response = send(&router, asked.body(Body::empty()).unwrap()).await;
            let missing =
                [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&response.status());
            assert!(!missing, "{method} {path}: {}", response.status());
        }
    }
    // Each route of the program text is described.
    let routes = include_str!("../src/api.rs");
    let described = document["paths"].as_object().unwrap();
    let routed = routes.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for path in routed {
        assert!(described.contains_key(path), "{path} is not described");
    }
}

/// A store with one parked object of two changes.
async fn with_a_parked_object() -> Arc<MemoryStore> {
    use seriatim::lease::Sighting;
    let store = Arc::new(MemoryStore::new());
    let feed = FeedName::new("orders").unwrap();
    store.ensure(&feed, 1, &Position::text("0")).await.unwrap();
    let host = HostName::new("a").unwrap();
    let session =
        store.join(&host, std::slice::from_ref(&feed), Duration::from_secs(10), None).await.unwrap();
    let lease = store.view(std::slice::from_ref(&feed)).await.unwrap().leases.remove(0);
    let lease = store.acquire(&session, &Sighting { lease, beat: None }).await.unwrap().unwrap();
    let failure =
        ParkedFailure { error: "no <b>".to_owned(), attempts: 5, state: ParkedState::Parked, next_try: None };
    let mut checkpoint = Checkpoint::at(Position::text("2"));
    checkpoint.parked = vec![
        Parking { change: change(1 << 60), failure: Some(failure) },
        Parking { change: change((1 << 60) + 1), failure: None },
    ];
    store.checkpoint(&lease, &checkpoint).await.unwrap();
    store
}

fn change(id: u64) -> Change {
    let row =
        |name: &str| Row::new(Columns::new(["id", "name"]), [Value_::Integer(7), Value_::Text(name.into())]);
    Change {
        feed: FeedName::new("orders").unwrap(),
        partition: Partition(0),
        position: Position::text(&id.to_string()),
        key: Some(Key::of("id", Value_::Integer(7))),
        op: Op::Update,
        at: "2026-11-16T08:00:00Z".parse().unwrap(),
        before: Some(row("private before <i>")),
        after: Some(row("private after")),
        id,
        prev: None,
    }
}

#[tokio::test]
async fn an_object_shows_what_waits_with_ids_that_scripts_can_read() {
    let dashboard = |hide: bool| async move {
        let panel = StorePanel::new(with_a_parked_object().await);
        Dashboard::new(panel).open_reads(true).hide_payloads(hide).token("alice", "secret").router()
    };
    let router = dashboard(false).await;
    let key = "%7B%22id%22%3A7%7D";
    let object: Value =
        serde_json::from_str(&get(&router, &format!("/api/v1/feeds/orders/objects?key={key}")).await.1)
            .unwrap();
    assert_eq!(object["changes"][0]["id"], (1u64 << 60).to_string());
    assert_eq!(object["changes"][1]["after"]["name"], "private after");
    let (_, page) = get(&router, &format!("/feeds/orders/object?key={key}")).await;
    assert!(
        page.contains("no &#60;b&#62;") && !page.contains("<i>"),
        "what comes from outside is escaped: {page}"
    );
    let hidden = dashboard(true).await;
    for path in ["/api/v1/feeds/orders/objects?key=7", "/feeds/orders/object?key=7"] {
        let (status, text) = get(&hidden, path).await;
        assert_eq!(status, StatusCode::OK);
        assert!(!text.contains("private"), "{path}: {text}");
    }
}

#[tokio::test]
async fn an_object_is_discarded_and_the_page_shows_what_is_left() {
    let router = Dashboard::new(StorePanel::new(with_a_parked_object().await))
        .open_reads(true)
        .token("alice", "secret")
        .router();
    assert!(get(&router, "/parked").await.1.contains("1 object, 2 changes waiting"));
    let body = json!({"feed": "orders", "key": {"id": 7}, "tail": true, "reason": "a test order"});
    let (status, answer) = act(&router, "/api/v1/parked/discard", &body, Some("secret")).await;
    assert_eq!((status, &answer["dropped"]), (StatusCode::OK, &json!(2)), "{answer}");
    assert!(get(&router, "/parked").await.1.contains("Nothing is parked"));
}

#[tokio::test]
async fn those_who_listen_hear_the_status_at_first_and_after_an_action() {
    let router = Dashboard::new(StorePanel::new(with_a_parked_object().await))
        .open_reads(true)
        .token("alice", "secret")
        .router();
    let response = send(&router, request(Method::GET, "/api/v1/events").body(Body::empty()).unwrap()).await;
    let mut body = response.into_body();
    let mut heard = String::new();
    let mut hears = async |words: &str| {
        while !heard.contains(words) {
            let frame =
                tokio::time::timeout(Duration::from_secs(10), body.frame()).await.unwrap().unwrap().unwrap();
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    };
    hears("\"parked\":1").await;
    let body = json!({"feed": "orders", "key": {"id": 7}, "tail": true, "reason": "a test order"});
    act(&router, "/api/v1/parked/discard", &body, Some("secret")).await;
    hears("\"parked\":0").await;
}

/// A store with so many parked objects, every third of which failed for a reason of its own kind.
async fn with_many_parked(objects: i64) -> Arc<MemoryStore> {
    use seriatim::lease::Sighting;
    let store = Arc::new(MemoryStore::new());
    let feed = FeedName::new("orders").unwrap();
    store.ensure(&feed, 1, &Position::text("0")).await.unwrap();
    let host = HostName::new("a").unwrap();
    let session =
        store.join(&host, std::slice::from_ref(&feed), Duration::from_secs(10), None).await.unwrap();
    let lease = store.view(std::slice::from_ref(&feed)).await.unwrap().leases.remove(0);
    let lease = store.acquire(&session, &Sighting { lease, beat: None }).await.unwrap().unwrap();
    let parking = |id: i64| {
        let kind = if id % 3 == 0 { "is sold out" } else { "has no price" };
        let (error, state) = (format!("article {id} {kind}"), ParkedState::Parked);
        let failure = ParkedFailure { error, attempts: 5, state, next_try: None };
        let key = Some(Key::of("id", Value_::Integer(id)));
        Parking { change: Change { key, ..change(id.cast_unsigned()) }, failure: Some(failure) }
    };
    let mut checkpoint = Checkpoint::at(Position::text("2"));
    checkpoint.parked = (0..objects).map(parking).collect();
    store.checkpoint(&lease, &checkpoint).await.unwrap();
    store
}

async fn states(store: &MemoryStore, words: &str) -> Vec<ParkedState> {
    let parked = store.parked(&FeedName::new("orders").unwrap(), None).await.unwrap();
    let meant = parked.iter().filter(|object| object.failure.error.contains(words));
    meant.map(|object| object.failure.state).collect()
}

#[tokio::test]
async fn an_action_takes_everything_that_matches_and_not_the_page() {
    let store = with_many_parked(1_800).await;
    let router =
        Dashboard::new(StorePanel::new(store.clone())).open_reads(true).token("alice", "secret").router();
    let (_, page) = get(&router, "/parked").await;
    assert!(
        page.contains("1200 objects, 1200 changes waiting") && page.contains("595 more like this"),
        "{page}"
    );
    let failures: Value = serde_json::from_str(&get(&router, "/api/v1/failures").await.1).unwrap();
    let sold_out = &failures["groups"][1];
    assert_eq!((&sold_out["group"], &sold_out["objects"]), (&json!("article # is sold out"), &json!(600)));

    let mut body = json!({"feed": "orders", "all": true, "group": sold_out["group"], "dry_run": true});
    let (_, counted) = act(&router, "/api/v1/parked/retry", &body, Some("secret")).await;
    assert_eq!((&counted["objects"], &counted["more"]), (&json!(600), &json!(false)));
    assert_eq!(states(&store, "").await, [ParkedState::Parked; 1_800], "a dry run does nothing");

    body["dry_run"] = json!(false);
    assert_eq!(act(&router, "/api/v1/parked/retry", &body, Some("secret")).await.1["objects"], 600);
    assert_eq!(states(&store, "sold out").await, [ParkedState::Retrying; 600]);
    assert_eq!(states(&store, "no price").await, [ParkedState::Parked; 1_200]);

    let body = json!({"feed": "orders", "all": true, "error": "no price", "reason": "never sold"});
    assert_eq!(act(&router, "/api/v1/parked/discard", &body, Some("secret")).await.1["dropped"], 1_200);
    assert_eq!(states(&store, "").await.len(), 600);
    let actions: Vec<Value> = serde_json::from_str(&get(&router, "/api/v1/actions").await.1).unwrap();
    assert_eq!(actions[0]["outcome"], "done: 1200 objects, 1200 dropped, 0 left");
}

#[tokio::test]
async fn a_look_before_a_bulk_action_says_how_much_it_concerns() {
    let store = with_many_parked(9).await;
    let router =
        Dashboard::new(StorePanel::new(store.clone())).open_reads(true).token("alice", "secret").router();
    let (_, page) =
        get(&router, "/parked/bulk?do=discard&feed=orders&group=article%20%23%20is%20sold%20out").await;
    assert!(
        page.contains("<strong>3 objects</strong>") && page.contains("Nothing has been done yet"),
        "{page}"
    );
    assert_eq!(states(&store, "").await.len(), 9);
}

#[tokio::test]
async fn much_that_is_parked_is_looked_at_in_part_and_said_so() {
    let router = Dashboard::new(StorePanel::new(with_many_parked(2_500).await)).open_reads(true).router();
    let (_, page) = get(&router, "/parked").await;
    assert!(page.contains("There are more than were looked at"), "{page}");
    let found = get(&router, "/api/v1/feeds/orders/objects?key=2499").await.1;
    assert!(found.contains("article 2499"), "a key is found wherever it is: {found}");
    let listed: Vec<Value> = serde_json::from_str(&get(&router, "/api/v1/parked?limit=7").await.1).unwrap();
    assert_eq!(listed.len(), 7);
}

#[tokio::test]
async fn every_page_is_there_and_teaches_when_it_is_empty() {
    let router = dashboard().await.router();
    for (path, words) in [
        ("/", "no host is running"),
        ("/feeds/orders", "Why is it not moving?"),
        ("/parked", "Nothing is parked"),
        ("/parked?feed=orders&error=x", "None any more"),
        ("/hosts", "seriatim run"),
        ("/queues", "seriatim queue push"),
        ("/actions", "Nobody has done anything"),
        ("/find?key=7", "not parked"),
    ] {
        let (status, page) = get(&router, path).await;
        assert!(status == StatusCode::OK && page.contains(words), "{path}: {status} {page}");
    }
}
