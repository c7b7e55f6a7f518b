//! The pages: drawn on the server from the API's own answers, brought up to date by a small script while they are looked at.

mod view;

use askama::Template;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Form, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Desk;
use crate::api::parse_key;
use crate::guard::{COOKIE_NAME, Caller};
use crate::panel::{Action, Done, ParkedQuery, Refusal, RefusalKind};
use view::{Attention, Feed, Group, Host, Status, grouped};

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/live.js");

/// The routes of the pages.
pub fn routes() -> Router<Desk> {
    Router::new()
        .route("/", home())
        .route("/feeds/{feed}", get(feed))
        .route("/feeds/{feed}/object", get(object))
        .route("/parked", get(parked))
        .route("/hosts", get(hosts))
        .route("/actions", get(actions))
        .route("/login", get(login).post(sign_in))
        .route("/act/{action}", post(act))
        .route("/assets/style.css", get(async || asset("text/css", STYLE)))
        .route("/assets/live.js", get(async || asset("text/javascript", SCRIPT)))
        .fallback(async |State(desk): State<Desk>| {
            Page::refusal(&desk, &Refusal::new(RefusalKind::NotFound, "there is no such page"))
        })
}

/// The first page.
pub fn home() -> MethodRouter<Desk> {
    get(overview)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "max-age=300")], text).into_response()
}

/// What every page has around it.
struct Frame<'a> {
    base: &'a str,
    title: &'a str,
    /// Who may act.
    who: Option<&'a str>,
    read_only: bool,
}

impl<'a> Frame<'a> {
    fn new(desk: &'a Desk, title: &'a str, caller: &'a Caller) -> Self {
        let settings = &desk.settings;
        let who = caller.name.as_deref().filter(|_| !settings.read_only);
        Frame { base: &settings.base_path, title, who, read_only: settings.read_only }
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    frame: Frame<'a>,
    status: &'a Status,
    attention: Vec<Attention>,
}

#[derive(Template)]
#[template(path = "feed.html")]
struct FeedPage<'a> {
    frame: Frame<'a>,
    feed: &'a Feed,
}

#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage<'a> {
    frame: Frame<'a>,
    groups: &'a [Group],
    feed: &'a str,
    more: bool,
}

#[derive(Template)]
#[template(path = "object.html")]
struct ObjectPage<'a> {
    frame: Frame<'a>,
    feed: &'a str,
    key: String,
    parked: Option<view::Parked>,
    changes: Vec<ChangeView>,
}

#[derive(Template)]
#[template(path = "hosts.html")]
struct HostsPage<'a> {
    frame: Frame<'a>,
    hosts: &'a [Host],
    feeds: &'a [Feed],
}

#[derive(Template)]
#[template(path = "actions.html")]
struct ActionsPage<'a> {
    frame: Frame<'a>,
    actions: &'a [Done],
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login<'a> {
    frame: Frame<'a>,
    wrong: bool,
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Page<'a> {
    frame: Frame<'a>,
    sentence: &'a str,
    remedy: &'a str,
}

impl Page<'_> {
    fn refusal(desk: &Desk, refusal: &Refusal) -> Response {
        let caller = Caller { name: None };
        let page = Page {
            frame: Frame::new(desk, "Not possible", &caller),
            sentence: &refusal.sentence,
            remedy: refusal.remedy.as_deref().unwrap_or_default(),
        };
        let status = match refusal.kind {
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, drawn(&page)).into_response()
    }
}

fn drawn(page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            tracing::warn!(%error, "a page could not be drawn");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value)
        .map_err(|error| Refusal::new(RefusalKind::Unavailable, format!("an answer cannot be read: {error}")))
}

impl Desk {
    async fn status(&self) -> Result<Status, Refusal> {
        read(self.panel.status().await?)
    }
}

async fn overview(State(desk): State<Desk>, Extension(caller): Extension<Caller>) -> Response {
    match desk.status().await {
        Ok(status) => drawn(&Overview {
            frame: Frame::new(&desk, "Overview", &caller),
            attention: status.attention(),
            status: &status,
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn feed(
    State(desk): State<Desk>,
    Path(name): Path<String>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let found = async { read::<Feed>(desk.feed(&name).await?) };
    match found.await {
        Ok(feed) => drawn(&FeedPage { frame: Frame::new(&desk, &name, &caller), feed: &feed }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

/// How many parked objects a page shows.
const SHOWN: usize = 200;

async fn parked(
    State(desk): State<Desk>,
    Query(query): Query<ParkedQuery>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let query = ParkedQuery { limit: Some(SHOWN), ..query };
    let found = async {
        let lines = desk.panel.parked(&query).await?;
        lines.into_iter().map(read).collect::<Result<Vec<view::Parked>, Refusal>>()
    };
    match found.await {
        Ok(objects) => {
            let more = objects.len() >= SHOWN;
            let groups = grouped(objects);
            let feed = query.feed.as_deref().unwrap_or_default();
            drawn(&ParkedPage { frame: Frame::new(&desk, "Parked", &caller), groups: &groups, feed, more })
        }
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

/// A change of an object: what it was, column by column.
struct ChangeView {
    id: String,
    prev: String,
    op: String,
    at: String,
    rows: Vec<(String, String, String, bool)>,
}

impl ChangeView {
    fn of(change: &Value) -> Self {
        let text = |name: &str| match &change[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (before, after) = (&change["before"], &change["after"]);
        let mut names: Vec<&String> =
            [before, after].into_iter().filter_map(Value::as_object).flat_map(|row| row.keys()).collect();
        names.sort();
        names.dedup();
        let cell = |row: &Value, name: &str| row.get(name).map(Value::to_string).unwrap_or_default();
        let rows = names.into_iter().map(|name| {
            let (old, new) = (cell(before, name), cell(after, name));
            let changed = old != new;
            (name.clone(), old, new, changed)
        });
        ChangeView {
            id: text("id"),
            prev: text("prev"),
            op: text("op"),
            at: text("at"),
            rows: rows.collect(),
        }
    }
}

#[derive(Deserialize)]
struct ObjectQuery {
    #[serde(default)]
    key: String,
}

async fn object(
    State(desk): State<Desk>,
    Path(feed): Path<String>,
    Query(query): Query<ObjectQuery>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let found = async {
        // Somebody who searches types a bare word.
        let key = parse_key(&query.key).unwrap_or_else(|_| Value::String(query.key.clone()));
        desk.object(&feed, &key).await
    };
    match found.await {
        Ok(object) => drawn(&ObjectPage {
            frame: Frame::new(&desk, "Object", &caller),
            feed: &feed,
            key: object["key"].to_string(),
            parked: serde_json::from_value(object["parked"].clone()).ok(),
            changes: object["changes"].as_array().into_iter().flatten().map(ChangeView::of).collect(),
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn hosts(State(desk): State<Desk>, Extension(caller): Extension<Caller>) -> Response {
    match desk.status().await {
        Ok(status) => drawn(&HostsPage {
            frame: Frame::new(&desk, "Hosts", &caller),
            hosts: &status.hosts,
            feeds: &status.feeds,
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn actions(State(desk): State<Desk>, Extension(caller): Extension<Caller>) -> Response {
    match desk.panel.actions(SHOWN).await {
        Ok(actions) => {
            drawn(&ActionsPage { frame: Frame::new(&desk, "Actions", &caller), actions: &actions })
        }
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn login(State(desk): State<Desk>) -> Response {
    let caller = Caller { name: None };
    drawn(&Login { frame: Frame::new(&desk, "Sign in", &caller), wrong: false })
}

#[derive(Deserialize)]
struct SignIn {
    token: String,
}

/// Keeps the token in a cookie that no script and no other site gets.
async fn sign_in(State(desk): State<Desk>, Form(form): Form<SignIn>) -> Response {
    let base = &desk.settings.base_path;
    let token = form.token.trim();
    if desk.settings.tokens.name_of(token).is_none() {
        let caller = Caller { name: None };
        let page = drawn(&Login { frame: Frame::new(&desk, "Sign in", &caller), wrong: true });
        return (StatusCode::UNAUTHORIZED, page).into_response();
    }
    let path = if base.is_empty() { "/" } else { base.as_str() };
    let cookie = format!("{COOKIE_NAME}={token}; Path={path}; HttpOnly; SameSite=Strict; Max-Age=86400");
    ([(header::SET_COOKIE, cookie)], Redirect::to(&format!("{base}/"))).into_response()
}

/// What a button sends.
#[derive(Deserialize)]
struct Pressed {
    #[serde(default)]
    feed: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    partition: u32,
    #[serde(default)]
    tail: bool,
    #[serde(default)]
    back: String,
}

async fn act(
    State(desk): State<Desk>,
    Path(action): Path<String>,
    Extension(caller): Extension<Caller>,
    Form(pressed): Form<Pressed>,
) -> Response {
    let Pressed { feed, key, reason, host, partition, tail, back } = pressed;
    let why = Some(reason.clone()).filter(|reason| !reason.trim().is_empty());
    let asked = match action.as_str() {
        "retry" if key.is_empty() => Ok(Action::Retry { feed, key: None }),
        "retry" => parse_key(&key).map(|key| Action::Retry { feed, key: Some(key) }),
        "discard" if why.is_none() => {
            Err(Refusal::new(RefusalKind::Bad, "the reason is empty").help("say why: it is kept"))
        }
        "discard" => parse_key(&key).map(|key| Action::Discard { feed, key, tail, reason }),
        "move" => Ok(Action::Move { feed, partition, host }),
        "pause" => Ok(Action::Pause { feed }),
        "resume" => Ok(Action::Resume { feed }),
        _ => Err(Refusal::new(RefusalKind::NotFound, "there is no such action")),
    };
    let done = match asked {
        Ok(action) => desk.act(action, &caller, why).await,
        Err(refusal) => Err(refusal),
    };
    match done {
        // Only a path of this page: no address of another site.
        Ok(_) => {
            let back = if back.starts_with('/') && !back.starts_with("//") { back } else { "/".to_owned() };
            Redirect::to(&format!("{}{back}", desk.settings.base_path)).into_response()
        }
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}
