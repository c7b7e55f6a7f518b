//! The JSON API, version 1. `openapi.json` describes it.

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Desk;
use crate::carry_out::carry_out;
use crate::events::events;
use crate::guard::Caller;
use crate::panel::{Action, Done, Filter, MOST, ParkedQuery, Refusal, RefusalKind};

const OPENAPI: &str = include_str!("../openapi.json");

/// The routes under `/api/v1`.
pub fn routes() -> Router<Desk> {
    Router::new()
        .route("/status", get(status))
        .route("/feeds/{feed}", get(feed))
        .route("/feeds/{feed}/objects", get(object))
        .route("/feeds/{feed}/pause", post(pause))
        .route("/feeds/{feed}/resume", post(resume))
        .route("/feeds/{feed}/rewind", post(rewind))
        .route("/feeds/{feed}/history", get(history))
        .route("/parked", get(parked))
        .route("/failures", get(failures))
        .route("/parked/retry", post(retry))
        .route("/parked/discard", post(discard))
        .route("/hosts", get(hosts))
        .route("/leases", get(leases))
        .route("/leases/move", post(hand_over))
        .route("/once", get(once))
        .route("/actions", get(actions))
        .route("/events", get(events))
        .route("/openapi.json", get(openapi))
        .fallback(async || {
            refused(
                StatusCode::NOT_FOUND,
                "the API has no such path",
                Some("GET /api/v1/openapi.json lists all"),
            )
        })
        .method_not_allowed_fallback(async || {
            refused(StatusCode::METHOD_NOT_ALLOWED, "this path is asked in another way", None)
        })
}

/// An answer that says why there is none.
pub fn refused(status: StatusCode, sentence: &str, remedy: Option<&str>) -> Response {
    (status, Json(json!({"error": sentence, "remedy": remedy}))).into_response()
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.kind {
            RefusalKind::Bad => StatusCode::BAD_REQUEST,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        refused(status, &self.sentence, self.remedy.as_deref())
    }
}

type Answer<T> = Result<Json<T>, Refusal>;

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn status(State(desk): State<Desk>) -> Answer<Value> {
    desk.panel.status().await.map(Json)
}

async fn feed(State(desk): State<Desk>, Path(feed): Path<String>) -> Answer<Value> {
    desk.feed(&feed).await.map(Json)
}

#[derive(Deserialize)]
struct ObjectQuery {
    key: Option<String>,
}

async fn object(
    State(desk): State<Desk>,
    Path(feed): Path<String>,
    Query(query): Query<ObjectQuery>,
) -> Answer<Value> {
    let key = parse_key(query.key.as_deref().unwrap_or_default())?;
    desk.object(&feed, &key).await.map(Json)
}

/// The key that somebody means: as JSON, or the bare value of a key of one column.
pub fn parse_key(text: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(|_| {
        Refusal::new(RefusalKind::Bad, "key is not JSON")
            .help(r#"write it as the list of parked objects does, such as {"id":42}"#)
    })
}

async fn parked(State(desk): State<Desk>, Query(query): Query<ParkedQuery>) -> Answer<Vec<Value>> {
    let query = ParkedQuery { limit: Some(query.limit()), ..query };
    Ok(Json(desk.panel.parked(&query).await?.lines))
}

async fn failures(State(desk): State<Desk>, Query(query): Query<ParkedQuery>) -> Answer<Value> {
    desk.failures(&query).await.map(|(groups, more)| Json(json!({"groups": groups, "more": more})))
}

async fn history(State(desk): State<Desk>, Path(feed): Path<String>) -> Answer<Value> {
    desk.feed(&feed).await?;
    Ok(Json(json!(desk.past(&feed))))
}

async fn hosts(State(desk): State<Desk>) -> Answer<Vec<Value>> {
    desk.panel.hosts().await.map(Json)
}

async fn leases(State(desk): State<Desk>) -> Answer<Vec<Value>> {
    desk.panel.leases().await.map(Json)
}

#[derive(Deserialize)]
struct OnceQuery {
    processor: Option<String>,
}

async fn once(State(desk): State<Desk>, Query(query): Query<OnceQuery>) -> Answer<Vec<Value>> {
    desk.panel.once(query.processor.as_deref()).await.map(Json)
}

#[derive(Deserialize)]
struct ActionsQuery {
    limit: Option<usize>,
}

async fn actions(State(desk): State<Desk>, Query(query): Query<ActionsQuery>) -> Answer<Vec<Done>> {
    desk.panel.actions(query.limit.unwrap_or(100).min(MOST)).await.map(Json)
}

/// Which parked objects somebody means.
enum Which {
    One(Value),
    Matching(Filter),
}

/// What is said with any action.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    feed: Option<String>,
    key: Option<Value>,
    all: bool,
    error: Option<String>,
    group: Option<String>,
    dry_run: bool,
    tail: bool,
    partition: Option<u32>,
    host: Option<String>,
    to: Option<String>,
    reason: Option<String>,
}

impl Said {
    fn of(body: &Bytes) -> Result<Self, Refusal> {
        if body.is_empty() {
            return Ok(Said::default());
        }
        parsed(body)
    }

    /// One object by its key, or all that match.
    fn which(&mut self) -> Result<Which, Refusal> {
        let filter = Filter { error: self.error.take(), group: self.group.take() };
        match (self.key.take(), self.all) {
            (Some(key), false) if filter.is_empty() && !self.dry_run => Ok(Which::One(key)),
            (None, true) => Ok(Which::Matching(filter)),
            _ => Err(Refusal::new(RefusalKind::Bad, "either \"key\" or \"all\": true")
                .help("\"error\", \"group\" and \"dry_run\" go with \"all\"")),
        }
    }

    fn feed(&mut self) -> Result<String, Refusal> {
        wanted(self.feed.take(), "feed")
    }
}

fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(RefusalKind::Bad, format!("the body is not what it should be: {error}"))
    })
}

fn wanted<T>(given: Option<T>, what: &str) -> Result<T, Refusal> {
    given.ok_or_else(|| Refusal::new(RefusalKind::Bad, format!("the body has no {what:?}")))
}

async fn retry(State(desk): State<Desk>, Extension(caller): Extension<Caller>, body: Bytes) -> Answer<Value> {
    let mut said = Said::of(&body)?;
    let feed = said.feed()?;
    let action = match said.which()? {
        Which::One(key) => Action::Retry { feed, key: Some(key) },
        Which::Matching(filter) if said.dry_run => {
            return desk.panel.matching(&feed, &filter).await.map(Json);
        }
        Which::Matching(filter) if filter.is_empty() => Action::Retry { feed, key: None },
        Which::Matching(filter) => Action::RetryMatching { feed, filter },
    };
    desk.act(action, &caller, said.reason).await.map(Json)
}

async fn discard(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Answer<Value> {
    let mut said = Said::of(&body)?;
    let (feed, tail) = (said.feed()?, said.tail);
    let which = said.which()?;
    if let (Which::Matching(filter), true) = (&which, said.dry_run) {
        return desk.panel.matching(&feed, filter).await.map(Json);
    }
    let reason = wanted(said.reason.take(), "reason")?;
    if reason.trim().is_empty() {
        return Err(Refusal::new(RefusalKind::Bad, "the reason is empty").help("say why: it is kept"));
    }
    let why = Some(reason.clone());
    let action = match which {
        Which::One(key) => Action::Discard { feed, key, tail, reason },
        Which::Matching(filter) => Action::DiscardMatching { feed, filter, tail, reason },
    };
    desk.act(action, &caller, why).await.map(Json)
}

async fn hand_over(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Answer<Value> {
    let mut said = Said::of(&body)?;
    let feed = said.feed()?;
    let (partition, host) = (wanted(said.partition, "partition")?, wanted(said.host.take(), "host")?);
    desk.act(Action::Move { feed, partition, host }, &caller, said.reason).await.map(Json)
}

async fn pause(
    State(desk): State<Desk>,
    Path(feed): Path<String>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Answer<Value> {
    desk.act(Action::Pause { feed }, &caller, Said::of(&body)?.reason).await.map(Json)
}

async fn resume(
    State(desk): State<Desk>,
    Path(feed): Path<String>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Answer<Value> {
    desk.act(Action::Resume { feed }, &caller, Said::of(&body)?.reason).await.map(Json)
}

async fn rewind(
    State(desk): State<Desk>,
    Path(feed): Path<String>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Answer<Value> {
    let mut said = Said::of(&body)?;
    let to = wanted(said.to.take(), "to")?;
    desk.act(Action::Rewind { feed, to }, &caller, said.reason).await.map(Json)
}

impl Desk {
    /// One feed of the status.
    pub(crate) async fn feed(&self, name: &str) -> Result<Value, Refusal> {
        let status = self.panel.status().await?;
        let feeds = status["feeds"].as_array().into_iter().flatten();
        let found = feeds.into_iter().find(|feed| feed["name"] == name).cloned();
        found.ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("there is no feed {name:?}")))
    }

    /// One object, without what is to be hidden.
    pub(crate) async fn object(&self, feed: &str, key: &Value) -> Result<Value, Refusal> {
        let mut object = self.panel.object(feed, key).await?;
        if self.settings.hide_payloads {
            hide_payloads(&mut object);
        }
        Ok(object)
    }

    /// Does something, and keeps that it was done, by whom and why. An action that cannot be kept is not done.
    pub(crate) async fn act(
        &self,
        action: Action,
        caller: &Caller,
        reason: Option<String>,
    ) -> Result<Value, Refusal> {
        let by = caller.name.clone().unwrap_or_default();
        // A caller that goes away ends neither what it asked for nor the note of what came of it.
        let desk = self.clone();
        let carried_out = tokio::spawn(async move {
            let outcome = carry_out(&*desk.panel, &action, &by, reason).await;
            desk.changed();
            outcome
        });
        carried_out.await.unwrap_or_else(|error| {
            Err(Refusal::new(RefusalKind::Unavailable, format!("the action ended early: {error}")))
        })
    }
}

/// Leaves the keys and takes the rows.
fn hide_payloads(object: &mut Value) {
    for change in object["changes"].as_array_mut().into_iter().flatten() {
        for image in ["before", "after"] {
            if change[image].is_object() {
                change[image] = json!("hidden");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_payloads_leave_the_keys() {
        let mut object =
            json!({"key": {"id": 1}, "changes": [{"id": "7", "before": null, "after": {"mail": "a@b"}}]});
        hide_payloads(&mut object);
        assert_eq!(object["changes"][0], json!({"id": "7", "before": null, "after": "hidden"}));
        assert_eq!(object["key"], json!({"id": 1}));
    }
}
