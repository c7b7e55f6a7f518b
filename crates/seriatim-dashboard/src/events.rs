//! What changes, as server-sent events: one look at the store a second for all who listen, and none while nobody does.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Desk, WeakDesk};

/// How often it is looked while somebody listens.
const EVERY: Duration = Duration::from_secs(1);

/// So many may listen at once.
const MOST_LISTENERS: usize = 64;

/// What those who listen hear: the whole status when it changed.
pub type News = watch::Sender<Option<Value>>;

/// `GET /api/v1/events`: the event `status` with the status as JSON, at first and whenever it changes.
pub async fn events(State(desk): State<Desk>) -> Response {
    if desk.news.receiver_count() >= MOST_LISTENERS {
        let sentence = "too many listen to events already";
        return crate::api::refused(axum::http::StatusCode::SERVICE_UNAVAILABLE, sentence, None);
    }
    let mut news = desk.news.subscribe();
    news.mark_changed();
    desk.look();
    let heard = stream::unfold(news, |mut news| async {
        loop {
            news.changed().await.ok()?;
            let status = news.borrow_and_update().clone();
            if let Some(status) = status {
                let event = Event::default().event("status").data(status.to_string());
                return Some((Ok::<_, Infallible>(event), news));
            }
        }
    });
    Sse::new(heard).keep_alive(KeepAlive::default()).into_response()
}

/// Looks while somebody listens.
pub async fn watch_status(desk: WeakDesk) {
    loop {
        let Some(desk) = desk.upgrade() else { return };
        if desk.news.receiver_count() == 0 && desk.stops_looking() {
            return;
        }
        match desk.panel.status().await {
            Ok(status) => {
                desk.remember(&status);
                desk.news.send_if_modified(|last| {
                    let changed = last.as_ref() != Some(&status);
                    *last = Some(status);
                    changed
                });
            }
            Err(refusal) => tracing::debug!("the status cannot be had: {}", refusal.sentence),
        }
        let asked = desk.asked.clone();
        drop(desk);
        // Somebody acted, or a second has passed.
        drop(tokio::time::timeout(EVERY, asked.notified()).await);
    }
}
