//! What the store's scripts answer, and how what they keep is written.

use redis::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim::change::{Change, Position};
use seriatim::lease::{HostView, Lease, LeaseId, LeaseView, Liveness, Owner, View};
use seriatim::name::{Epoch, FeedName, HostName, Partition};
use seriatim::store::{Discarded, Discarding, ParkedFailure, ParkedObject, ParkedState, Renewal, Session};

use crate::parts::{Parts, Result, list, session, strange};

/// As JSON, lossless.
pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("changes, keys and names always serialize")
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|_| strange(text))
}

fn feed_name(text: &str) -> Result<FeedName> {
    FeedName::new(text).map_err(strange)
}

fn host_name(text: &str) -> Option<HostName> {
    HostName::new(text).ok()
}

/// Names of feeds, sorted.
pub(super) fn feeds(answer: Value) -> Result<Vec<FeedName>> {
    let mut parts = Parts::of(answer)?;
    let mut feeds = Vec::new();
    while parts.0.len() > 0 {
        feeds.push(feed_name(&parts.text()?)?);
    }
    feeds.sort();
    Ok(feeds)
}

/// The id of the last news, and everything about leases and hosts.
pub(super) fn view(answer: Value) -> Result<(String, View)> {
    let mut answers = list(answer)?.into_iter();
    let mut next = || answers.next().ok_or_else(|| strange("a short answer"));
    let news = crate::script::string(next()?).ok_or_else(|| strange("no id of news"))?;
    let leases = list(next()?)?.into_iter().map(lease).collect::<Result<Vec<_>>>()?;
    let mut hosts = list(next()?)?.into_iter().map(host).collect::<Result<Vec<_>>>()?;
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((String::from_utf8(news).map_err(strange)?, View { leases, hosts }))
}

fn lease(answer: Value) -> Result<LeaseView> {
    let mut parts = Parts::of(answer)?;
    let id = LeaseId { feed: feed_name(&parts.text()?)?, partition: Partition(parts.number()?) };
    let (epoch, version) = (Epoch(parts.number()?), parts.number()?);
    let position = Position::text(&parts.text()?);
    let owner = parts.optional(host_name)?;
    let owners_session = parts.optional(|text| session(text).ok())?;
    let owner = owner.zip(owners_session).map(|(host, session)| Owner { host, session });
    let hand_over_to = parts.optional(host_name)?;
    Ok(LeaseView { id, owner, epoch, version, position, hand_over_to, asked: parts.number()? })
}

fn host(answer: Value) -> Result<HostView> {
    let mut parts = Parts::of(answer)?;
    Ok(HostView {
        name: HostName::new(&parts.text()?).map_err(strange)?,
        session: parts.session()?,
        feeds: from_json(&parts.text()?)?,
        beat: parts.number()?,
        seen_at: parts.time()?,
        troubles: from_json(&parts.text()?)?,
        liveness: Liveness::Unknown,
    })
}

/// A lease that was acquired; nothing when somebody was faster.
pub(super) fn acquired(answer: Value, id: &LeaseId, by: &Session) -> Result<Option<Lease>> {
    let mut parts = Parts::of(answer)?;
    if parts.0.len() == 0 {
        return Ok(None);
    }
    let (epoch, position) = (Epoch(parts.number()?), Position::text(&parts.text()?));
    Ok(Some(Lease { id: id.clone(), session: by.id.clone(), epoch, position }))
}

/// One answer for each lease.
pub(super) fn renewals(answer: Value) -> Result<Vec<Renewal>> {
    let mut parts = Parts::of(answer)?;
    let mut renewals = Vec::new();
    while parts.0.len() > 0 {
        let text = parts.text()?;
        renewals.push(match text.strip_prefix('+') {
            None => Renewal::Lost,
            Some("") => Renewal::Kept { hand_over_to: None },
            Some(host) => Renewal::Kept { hand_over_to: Some(HostName::new(host).map_err(strange)?) },
        });
    }
    Ok(renewals)
}

/// The parked objects of a feed.
pub(super) fn parked(answer: Value, feed: &FeedName) -> Result<Vec<ParkedObject>> {
    list(answer)?.into_iter().map(|answer| parked_object(answer, feed)).collect()
}

fn parked_object(answer: Value, feed: &FeedName) -> Result<ParkedObject> {
    let mut parts = Parts::of(answer)?;
    Ok(ParkedObject {
        feed: feed.clone(),
        partition: Partition(parts.number()?),
        key: from_json(&parts.text()?)?,
        failure: ParkedFailure {
            error: parts.text()?,
            attempts: parts.number()?,
            state: parked_state(&parts.text()?)?,
        },
        since: parts.time()?,
        waiting: parts.number()?,
        bytes: parts.number()?,
    })
}

/// One parked object; nothing when it is not parked.
pub(super) fn one_parked(answer: Value, feed: &FeedName) -> Result<Option<ParkedObject>> {
    match &answer {
        Value::Array(parts) if parts.is_empty() => Ok(None),
        _ => parked_object(answer, feed).map(Some),
    }
}

/// What scripts call a state.
pub(super) fn state_name(state: ParkedState) -> &'static str {
    match state {
        ParkedState::Retrying => "retrying",
        ParkedState::Parked => "parked",
    }
}

fn parked_state(name: &str) -> Result<ParkedState> {
    match name {
        "retrying" => Ok(ParkedState::Retrying),
        "parked" => Ok(ParkedState::Parked),
        other => Err(strange(other)),
    }
}

/// How many.
pub(super) fn count(answer: Value) -> Result<u64> {
    match answer {
        Value::Int(count) => u64::try_from(count).map_err(strange),
        other => Err(strange(other)),
    }
}

/// What became of a discard.
pub(super) fn discarding(answer: Value) -> Result<Discarding> {
    match answer {
        Value::Int(-1) => Ok(Discarding::Busy),
        Value::Int(0) => Ok(Discarding::Changed),
        dropped => count(dropped).map(Discarding::Done),
    }
}

/// Discards, in the order given.
pub(super) fn discards(answer: Value, feed: &FeedName) -> Result<Vec<Discarded>> {
    list(answer)?.into_iter().map(|answer| discard(answer, feed)).collect()
}

fn discard(answer: Value, feed: &FeedName) -> Result<Discarded> {
    let note = crate::script::string(answer).ok_or_else(|| strange("no discard"))?;
    let note: Vec<String> = from_json(&String::from_utf8(note).map_err(strange)?)?;
    let mut parts = Parts(note.into_iter().map(String::into_bytes).collect::<Vec<_>>().into_iter());
    Ok(Discarded {
        feed: feed.clone(),
        partition: Partition(parts.number()?),
        key: from_json(&parts.text()?)?,
        first: parts.number()?,
        last: parts.number()?,
        changes: parts.number()?,
        error: parts.text()?,
        reason: parts.text()?,
        at: parts.time()?,
    })
}

/// Changes, in order.
pub(super) fn changes(answer: Value) -> Result<Vec<Change>> {
    let mut parts = Parts::of(answer)?;
    let mut changes = Vec::new();
    while parts.0.len() > 0 {
        changes.push(from_json(&parts.text()?)?);
    }
    Ok(changes)
}
