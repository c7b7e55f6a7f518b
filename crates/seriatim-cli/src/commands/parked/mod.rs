//! `seriatim parked`: objects that could not be handled, and what a person can do about them.

mod discard;
mod list;
pub mod queued;
mod retry;
mod show;

use seriatim::FeedName;
use seriatim::store::{ParkedObject, ParkedState, Store};
use seriatim::value::Key;

use crate::args::Parked;
use crate::config::{Config, FeedConfig};
use crate::databases::{self, OpenStore};
use crate::error::{Error, Result};

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Parked) -> Result<()> {
    if let Some(queue) = feed_of(arguments).and_then(|feed| config.queue(feed).ok()) {
        return queued::execute(config, queue, arguments).await;
    }
    match arguments {
        Parked::List(arguments) => list::execute(config, arguments).await,
        Parked::Show(arguments) => show::execute(config, arguments).await,
        Parked::Retry(arguments) => retry::execute(config, arguments).await,
        Parked::Discard(arguments) => discard::execute(config, arguments).await,
    }
}

/// The feed that a command is about.
fn feed_of(arguments: &Parked) -> Option<&str> {
    match arguments {
        Parked::List(arguments) => arguments.feed.as_deref(),
        Parked::Show(arguments) => Some(&arguments.feed),
        Parked::Retry(arguments) => Some(&arguments.feed),
        Parked::Discard(arguments) => Some(&arguments.feed),
    }
}

/// Whether an object waits for a person, or for what a person has asked for: not one that only stepped aside for a moment.
pub fn is_for_people(object: &ParkedObject) -> bool {
    object.failure.state == ParkedState::Parked || object.failure.attempts == 0
}

/// A feed that has run, and its store.
async fn known<'a>(config: &'a Config, feed: &str) -> Result<(OpenStore, &'a FeedConfig)> {
    let feed = config.feed(feed)?;
    let store = databases::existing_store(&config.store).await?;
    let never_ran = || Error::failed(format!("feed {} has never run: nothing of it is parked", feed.name));
    Ok((store.ok_or_else(never_ran)?, feed))
}

/// The key that somebody means: as JSON, such as `{"id":42}`, or the bare value of a key of one column.
fn parse_key(text: &str) -> Result<serde_json::Value> {
    serde_json::from_str(text).map_err(|cause| {
        Error::usage(format!("--key {text}: this is not JSON"))
            .caused_by(cause)
            .help(r#"write it as `seriatim parked list` does, in quotes for the shell: --key '{"id":42}'"#)
    })
}

fn is_meant(key: &Key, wanted: &serde_json::Value) -> bool {
    let shown = key.to_json();
    let alone =
        shown.as_object().filter(|columns| columns.len() == 1).and_then(|columns| columns.values().next());
    shown == *wanted || alone == Some(wanted)
}

/// The parked object that somebody means.
async fn find(store: &dyn Store, feed: &FeedName, key: &str) -> Result<ParkedObject> {
    let wanted = parse_key(key)?;
    let parked = store.parked(feed, None).await?;
    let found = parked.into_iter().find(|object| is_meant(&object.key, &wanted));
    found.ok_or_else(|| not_parked(feed, &wanted))
}

fn not_parked(feed: &FeedName, key: &serde_json::Value) -> Error {
    Error::failed(format!("feed {feed}: {key} is not parked"))
        .help(format!("`seriatim parked list {feed}` shows what is"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seriatim::value::{Columns, Row, Value};

    #[test]
    fn a_key_is_meant_by_its_json_or_by_its_only_value() {
        let key = Key::of("id", Value::Integer(42));
        for (text, meant) in [(r#"{"id":42}"#, true), ("42", true), (r#"{"id":"42"}"#, false), ("43", false)]
        {
            assert_eq!(is_meant(&key, &parse_key(text).unwrap()), meant, "{text}");
        }
        let pair = Key::new(Row::new(Columns::new(["a", "b"]), [Value::Integer(1), Value::Text("x".into())]));
        assert!(is_meant(&pair, &parse_key(r#"{ "b": "x", "a": 1 }"#).unwrap()));
        assert!(!is_meant(&pair, &parse_key("1").unwrap()));
        assert_eq!(parse_key("{id:42}").unwrap_err().exit(), crate::error::Exit::Usage);
    }
}
