//! `seriatim parked`: objects that could not be handled, and what a person can do about them.

mod discard;
mod list;
pub mod queued;
mod retry;
mod show;

pub use list::lines;

use seriatim::FeedName;
use seriatim::store::{ParkedObject, Store};
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

/// What a run says that has handled all it could, and has left parked objects behind.
pub fn are_parked(feed: &str, what: &str) -> Error {
    Error::failed(what).help(format!(
        "`seriatim parked list {feed}` shows them with their errors; mend the cause, then run `seriatim parked retry {feed} --all`"
    ))
}

/// Whether an object waits for a person, not one that only stepped aside for a moment.
pub fn is_for_people(object: &ParkedObject) -> bool {
    object.is_for_people()
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
    let one = parked.first().map(|object| object.key.clone());
    let found = parked.into_iter().find(|object| is_meant(&object.key, &wanted));
    found.ok_or_else(|| not_among(feed, &wanted, one.as_ref()))
}

/// The error for a key that is not parked, where one that is shows which columns keys have.
fn not_among(feed: &FeedName, wanted: &serde_json::Value, parked: Option<&Key>) -> Error {
    match parked.map(column_names) {
        Some(columns) if has_other_columns(wanted, &columns) => other_columns(feed, wanted, &columns),
        _ => not_parked(feed, wanted),
    }
}

fn column_names(key: &Key) -> Vec<String> {
    key.to_json().as_object().map(|columns| columns.keys().cloned().collect()).unwrap_or_default()
}

/// Whether somebody names columns that keys of the feed do not have.
fn has_other_columns(wanted: &serde_json::Value, columns: &[String]) -> bool {
    let known = |name: &String| columns.contains(name);
    wanted.as_object().is_some_and(|given| given.len() != columns.len() || !given.keys().all(known))
}

fn other_columns(feed: &FeedName, wanted: &serde_json::Value, columns: &[String]) -> Error {
    let example = columns.iter().map(|column| format!("\"{column}\":…")).collect::<Vec<_>>().join(",");
    Error::usage(format!("--key {wanted}: the key of feed {feed} has the columns {}", columns.join(", ")))
        .help(format!(
            "write it as --key '{{{example}}}'; `seriatim parked list {feed}` shows what is parked"
        ))
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
