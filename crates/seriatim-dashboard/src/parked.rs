//! What is parked, in bounded looks: some of it for a page, and all that matches a filter for whoever acts.

use serde_json::{Value, json};
use seriatim::store::{Discard, Discarding, ParkedObject, group_of};
use seriatim::{FeedName, Key, Store};

use crate::panel::{Filter, Refusal};

/// So many objects are read at a time.
const AT_ONCE: usize = 500;

/// So many parked objects of a feed are looked at for a list.
pub const LOOKED_AT: usize = 2_000;

/// So many are looked at where somebody asks first how many an action concerns, or looks for one by a key of a type that JSON cannot tell.
pub const COUNTED: usize = 20_000;

impl Filter {
    /// Whether an error is meant.
    pub fn matches(&self, error: &str) -> bool {
        self.error.as_ref().is_none_or(|words| error.contains(words.as_str()))
            && self.group.as_ref().is_none_or(|group| group_of(error).trim() == group.trim())
    }
}

/// Hands over parked objects, at most so many are looked at, until it is enough. Whether there are more.
pub async fn look(
    store: &dyn Store,
    feed: &FeedName,
    most: usize,
    mut take: impl FnMut(ParkedObject) -> bool + Send,
) -> Result<bool, Refusal> {
    let (mut seen, mut after) = (0, None::<String>);
    loop {
        let page = store.parked_page(feed, after.as_deref(), AT_ONCE.min(most - seen)).await?;
        seen += page.objects.len();
        for object in page.objects.into_iter().filter(ParkedObject::is_for_people) {
            if !take(object) {
                return Ok(true);
            }
        }
        match page.next {
            None => return Ok(false),
            Some(_) if seen >= most => return Ok(true),
            next => after = next,
        }
    }
}

/// How much an action would concern.
pub async fn matching(store: &dyn Store, feed: &FeedName, filter: &Filter) -> Result<Value, Refusal> {
    let (mut objects, mut changes) = (0_u64, 0_u64);
    let count = |object: ParkedObject| {
        if filter.matches(&object.failure.error) {
            objects += 1;
            changes += object.waiting;
        }
        true
    };
    let more = look(store, feed, COUNTED, count).await?;
    Ok(json!({"feed": feed, "dry_run": true, "objects": objects, "changes": changes, "more": more}))
}

/// Has all objects that match tried again, however many pages they fill.
pub async fn retry_matching(store: &dyn Store, feed: &FeedName, filter: &Filter) -> Result<Value, Refusal> {
    let (mut objects, mut after) = (0_u64, None::<String>);
    loop {
        let page = store.parked_page(feed, after.as_deref(), AT_ONCE).await?;
        for object in page.objects.iter().filter(|object| is_meant(object, filter)) {
            objects += store.retry_parked(feed, Some(&object.key)).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(json!({"feed": feed, "objects": objects}));
        }
    }
}

/// Drops the first change, or all that waits, of all objects that match.
pub async fn discard_matching(
    store: &dyn Store,
    feed: &FeedName,
    filter: &Filter,
    tail: bool,
    reason: &str,
) -> Result<Value, Refusal> {
    let (mut objects, mut dropped, mut left, mut after) = (0_u64, 0_u64, 0_u64, None::<String>);
    loop {
        let page = store.parked_page(feed, after.as_deref(), AT_ONCE).await?;
        for object in page.objects.iter().filter(|object| is_meant(object, filter)) {
            match discard(store, feed, &object.key, tail, reason).await? {
                Discarding::Done(changes) => {
                    objects += 1;
                    dropped += changes;
                }
                // It is tried again just now, or was: it is not what somebody has looked at.
                Discarding::Busy | Discarding::Changed => left += 1,
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(json!({"feed": feed, "objects": objects, "dropped": dropped, "left": left}));
        }
    }
}

fn is_meant(object: &ParkedObject, filter: &Filter) -> bool {
    object.is_for_people() && filter.matches(&object.failure.error)
}

/// Drops the first change of an object as it is now, or all that waits.
pub async fn discard(
    store: &dyn Store,
    feed: &FeedName,
    key: &Key,
    tail: bool,
    reason: &str,
) -> Result<Discarding, Refusal> {
    let Some(first) = store.parked_changes(feed, key, 1).await?.first().map(|change| change.id) else {
        return Ok(Discarding::Changed);
    };
    let what = if tail { Discard::All(first) } else { Discard::First(first) };
    Ok(store.discard_parked(feed, key, what, reason).await?)
}

/// The object of this key. A key that JSON can tell is found at once; for another one the first objects are looked at, and the second
/// answer is whether there are more that were not.
pub async fn find(
    store: &dyn Store,
    feed: &FeedName,
    wanted: &Value,
) -> Result<(Option<ParkedObject>, bool), Refusal> {
    if let Some(key) = plain_key(wanted)
        && let Some(found) = store.parked_object(feed, &key).await?
    {
        return Ok((Some(found), false));
    }
    let mut found = None;
    let take = |object: ParkedObject| {
        let meant = is_key(&object.key, wanted);
        found = found.take().or_else(|| meant.then_some(object));
        found.is_none()
    };
    let more = look(store, feed, COUNTED, take).await?;
    let more = more && found.is_none();
    Ok((found, more))
}

/// The keys that a text in JSON means where its columns are numbers, texts or truths.
fn plain_key(wanted: &Value) -> Option<Key> {
    use seriatim::value::Value as Typed;
    let typed = |value: &Value| match value {
        Value::Number(number) => number.as_i64().map(Typed::Integer),
        Value::String(text) => Some(Typed::Text(text.as_str().into())),
        Value::Bool(truth) => Some(Typed::Bool(*truth)),
        _ => None,
    };
    match wanted {
        Value::Object(columns) if !columns.is_empty() => {
            let values: Option<Vec<_>> = columns.values().map(typed).collect();
            let names = seriatim::Columns::new(columns.keys());
            Some(Key::new(seriatim::Row::new(names, values?)))
        }
        value => typed(value).map(|value| Key::of("key", value)),
    }
}

fn is_key(key: &Key, wanted: &Value) -> bool {
    let shown = key.to_json();
    let alone =
        shown.as_object().filter(|columns| columns.len() == 1).and_then(|columns| columns.values().next());
    // Somebody who types a bare key means its text, too: that of a number with a fraction, or of a moment.
    let typed = wanted.to_string();
    let as_text = |alone: &Value| alone.as_str() == Some(typed.as_str());
    shown == *wanted || alone == Some(wanted) || alone.is_some_and(as_text)
}
