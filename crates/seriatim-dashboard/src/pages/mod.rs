//! The pages: drawn on the server from the API's own answers, brought up to date by a small script while they are looked at.

mod cause;
pub mod view;

use askama::Template;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Form, Router};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Desk;
use crate::api::parse_key;
use crate::guard::{COOKIE_NAME, Caller};
use crate::panel::{Action, Done, Filter, ParkedQuery, Refusal, RefusalKind};
use crate::parked::LOOKED_AT;
use cause::Cause;
use view::{Attention, Feed, Group, Host, LeaseLine, Signal, Spark, Status, grouped};

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/live.js");

/// The routes of the pages.
pub fn routes() -> Router<Desk> {
    Router::new()
        .route("/", home())
        .route("/feeds/{feed}", get(feed))
        .route("/feeds/{feed}/object", get(object))
        .route("/find", get(find))
        .route("/parked", get(parked))
        .route("/parked/bulk", get(bulk))
        .route("/hosts", get(hosts))
        .route("/queues", get(queues))
        .route("/once", get(once))
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
    causes: Vec<Cause>,
    leases: &'a [LeaseLine],
    spark: Option<Spark>,
    now: Timestamp,
}

impl FeedPage<'_> {
    fn lease(&self, partition: &u32) -> Option<&LeaseLine> {
        self.leases.iter().find(|lease| lease.partition == *partition)
    }

    fn renewed(&self, partition: &u32) -> String {
        self.lease(partition).map_or_else(|| "-".to_owned(), |lease| lease.renewed(self.now))
    }
}

#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage<'a> {
    frame: Frame<'a>,
    groups: &'a [Group],
    feed: &'a str,
    more: bool,
}

/// All objects that match, as far as they are shown.
#[derive(Template)]
#[template(path = "matching.html")]
struct MatchingPage<'a> {
    frame: Frame<'a>,
    objects: &'a [view::Parked],
    which: &'a Matching,
    more: bool,
}

/// What an action on all that matches would do.
#[derive(Template)]
#[template(path = "bulk.html")]
struct BulkPage<'a> {
    frame: Frame<'a>,
    which: &'a Matching,
    discards: bool,
    objects: u64,
    changes: u64,
    more: bool,
}

/// Where a key was found.
#[derive(Template)]
#[template(path = "find.html")]
struct FindPage<'a> {
    frame: Frame<'a>,
    key: &'a str,
    found: Vec<(String, Option<view::Parked>)>,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage<'a> {
    frame: Frame<'a>,
    queues: Vec<&'a Feed>,
}

#[derive(Template)]
#[template(path = "once.html")]
struct OncePage<'a> {
    frame: Frame<'a>,
    signals: &'a [Signal],
    processor: &'a str,
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
    more: bool,
    /// Not more than so many parked objects were looked at, and there are more.
    looked_at: Option<u64>,
}

#[derive(Template)]
#[template(path = "hosts.html")]
struct HostsPage<'a> {
    frame: Frame<'a>,
    hosts: &'a [Host],
    feeds: &'a [Feed],
    leases: &'a [LeaseLine],
    more: bool,
    now: Timestamp,
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
        let status = self.panel.status().await?;
        self.remember(&status);
        read(status)
    }

    async fn leases(&self) -> Result<Vec<LeaseLine>, Refusal> {
        self.panel.leases().await?.into_iter().map(read).collect()
    }

    /// Parked objects by what went wrong, and whether there are more that were not looked at.
    pub(crate) async fn failures(&self, query: &ParkedQuery) -> Result<(Vec<Group>, bool), Refusal> {
        let query = ParkedQuery { limit: Some(LOOKED_AT), ..query.clone() };
        let listed = self.panel.parked(&query).await?;
        let objects = listed.lines.into_iter().map(read).collect::<Result<Vec<view::Parked>, Refusal>>()?;
        Ok((grouped(objects), listed.more))
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
    let found = async {
        let status = desk.status().await?;
        let unknown = || Refusal::new(RefusalKind::NotFound, format!("there is no feed {name:?}"));
        let feed = status.feeds.into_iter().find(|feed| feed.name == name).ok_or_else(unknown)?;
        let mut leases = desk.leases().await?;
        leases.retain(|lease| lease.feed == name);
        let one = ParkedQuery { feed: Some(name.clone()), limit: Some(1), ..ParkedQuery::default() };
        let parked = if feed.parked > 0 { desk.panel.parked(&one).await?.lines } else { Vec::new() };
        let oldest: Option<view::Parked> = parked.into_iter().next().map(read).transpose()?;
        let causes = cause::line(&feed, &status.hosts, &leases, oldest.as_ref());
        Ok((feed, leases, causes))
    };
    match found.await {
        Ok((feed, leases, causes)) => drawn(&FeedPage {
            frame: Frame::new(&desk, &name, &caller),
            feed: &feed,
            causes,
            leases: &leases,
            spark: view::spark(&desk.past(&name)),
            now: seriatim::clock::wall(),
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

/// How many parked objects a page shows.
const SHOWN: usize = 200;

/// Which parked objects a page or a button is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Matching {
    feed: String,
    group: Option<String>,
    error: Option<String>,
    /// `retry` or `discard`.
    r#do: String,
}

impl Matching {
    fn filter(&self) -> Filter {
        let error = self.error.clone().filter(|error| !error.is_empty());
        Filter { error, group: self.group.clone() }
    }

    /// For people.
    fn words(&self) -> String {
        match (&self.group, &self.error) {
            (Some(group), _) if group.is_empty() => "whose error has no words".to_owned(),
            (Some(group), _) => format!("whose error is like “{group}”"),
            (None, Some(error)) if !error.is_empty() => format!("whose error has “{error}”"),
            _ => "that are parked".to_owned(),
        }
    }

    /// As part of an address.
    fn query(&self) -> String {
        let group = self.group.as_deref().map(|group| format!("&group={}", view::encoded(group)));
        let error = self.error.as_deref().map(|error| format!("&error={}", view::encoded(error)));
        format!(
            "feed={}{}{}",
            view::encoded(&self.feed),
            group.unwrap_or_default(),
            error.unwrap_or_default()
        )
    }
}

async fn parked(
    State(desk): State<Desk>,
    Query(which): Query<Matching>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let Filter { error, group } = which.filter();
    let feed = Some(which.feed.clone()).filter(|feed| !feed.is_empty());
    let all = error.is_none() && group.is_none();
    let query = ParkedQuery { feed, error, group, limit: Some(SHOWN) };
    let frame = Frame::new(&desk, "Parked", &caller);
    if all {
        return match desk.failures(&query).await {
            Ok((groups, more)) => drawn(&ParkedPage { frame, groups: &groups, feed: &which.feed, more }),
            Err(refusal) => Page::refusal(&desk, &refusal),
        };
    }
    let found = async {
        let listed = desk.panel.parked(&query).await?;
        let objects = listed.lines.into_iter().map(read).collect::<Result<Vec<view::Parked>, Refusal>>()?;
        Ok((objects, listed.more))
    };
    match found.await {
        Ok((objects, more)) => drawn(&MatchingPage { frame, objects: &objects, which: &which, more }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn bulk(
    State(desk): State<Desk>,
    Query(which): Query<Matching>,
    Extension(caller): Extension<Caller>,
) -> Response {
    match desk.panel.matching(&which.feed, &which.filter()).await {
        Ok(counted) => drawn(&BulkPage {
            frame: Frame::new(&desk, "Before you act", &caller),
            discards: which.r#do == "discard",
            objects: counted["objects"].as_u64().unwrap_or_default(),
            changes: counted["changes"].as_u64().unwrap_or_default(),
            more: counted["more"].as_bool().unwrap_or_default(),
            which: &which,
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

/// At most so many feeds are searched.
const SEARCHED: usize = 50;

/// A key wherever it is parked: on its page, or a choice where there are several.
async fn find(
    State(desk): State<Desk>,
    Query(query): Query<ObjectQuery>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let key = typed_key(&query.key);
    let found = async {
        let mut found = Vec::new();
        for feed in desk.status().await?.feeds.into_iter().take(SEARCHED) {
            let object = desk.panel.object(&feed.name, &key).await?;
            found.push((feed.name, serde_json::from_value::<view::Parked>(object["parked"].clone()).ok()));
        }
        Ok(found)
    };
    match found.await {
        Ok(found) => {
            let frame = Frame::new(&desk, "Search", &caller);
            drawn(&FindPage { frame, key: &query.key, found })
        }
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

/// Somebody who searches types a bare word.
fn typed_key(text: &str) -> Value {
    parse_key(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

async fn queues(State(desk): State<Desk>, Extension(caller): Extension<Caller>) -> Response {
    match desk.status().await {
        Ok(status) => drawn(&QueuesPage {
            frame: Frame::new(&desk, "Queues", &caller),
            queues: status.feeds.iter().filter(|feed| feed.is_queue()).collect(),
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OnceQuery {
    processor: String,
}

async fn once(
    State(desk): State<Desk>,
    Query(query): Query<OnceQuery>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let processor = Some(query.processor.trim()).filter(|processor| !processor.is_empty());
    let found = async {
        let lines = desk.panel.once(processor).await?;
        lines.into_iter().take(SHOWN + 1).map(read).collect::<Result<Vec<Signal>, Refusal>>()
    };
    match found.await {
        Ok(signals) => drawn(&OncePage {
            frame: Frame::new(&desk, "Once", &caller),
            more: signals.len() > SHOWN,
            signals: &signals[..signals.len().min(SHOWN)],
            processor: &query.processor,
        }),
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
            // All of a new row is new: only what an update changed is marked.
            let changed = old != new && before.is_object() && after.is_object();
            (name.clone(), old, new, changed)
        });
        ChangeView {
            id: text("id"),
            prev: text("prev"),
            op: text("op"),
            at: view::when(&text("at")),
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
    let found = async { desk.object(&feed, &typed_key(&query.key)).await };
    match found.await {
        Ok(object) => drawn(&ObjectPage {
            frame: Frame::new(&desk, "Object", &caller),
            feed: &feed,
            key: object["key"].to_string(),
            parked: serde_json::from_value(object["parked"].clone()).ok(),
            changes: object["changes"].as_array().into_iter().flatten().map(ChangeView::of).collect(),
            more: object["more"].as_bool().unwrap_or_default(),
            looked_at: object["looked_at"].as_u64(),
        }),
        Err(refusal) => Page::refusal(&desk, &refusal),
    }
}

async fn hosts(State(desk): State<Desk>, Extension(caller): Extension<Caller>) -> Response {
    let found = async { Ok((desk.status().await?, desk.leases().await?)) };
    match found.await {
        Ok((status, leases)) => drawn(&HostsPage {
            frame: Frame::new(&desk, "Hosts", &caller),
            hosts: &status.hosts,
            feeds: &status.feeds,
            more: leases.len() > SHOWN,
            leases: &leases[..leases.len().min(SHOWN)],
            now: seriatim::clock::wall(),
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
    /// All objects that match, and not one.
    #[serde(default)]
    all: bool,
    group: Option<String>,
    error: Option<String>,
    #[serde(default)]
    back: String,
}

async fn act(
    State(desk): State<Desk>,
    Path(action): Path<String>,
    Extension(caller): Extension<Caller>,
    Form(pressed): Form<Pressed>,
) -> Response {
    let Pressed { feed, key, reason, host, partition, tail, all, group, error, back } = pressed;
    let filter = Filter { error: error.filter(|error| !error.is_empty()), group };
    let why = Some(reason.clone()).filter(|reason| !reason.trim().is_empty());
    let asked = match action.as_str() {
        "retry" if all && !filter.is_empty() => Ok(Action::RetryMatching { feed, filter }),
        "retry" if all => Ok(Action::Retry { feed, key: None }),
        "retry" => parse_key(&key).map(|key| Action::Retry { feed, key: Some(key) }),
        "discard" if why.is_none() => {
            Err(Refusal::new(RefusalKind::Bad, "the reason is empty").help("say why: it is kept"))
        }
        "discard" if all => Ok(Action::DiscardMatching { feed, filter, tail, reason }),
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
