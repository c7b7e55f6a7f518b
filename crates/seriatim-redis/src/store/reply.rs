//! What the store's scripts answer, and how what they keep is written.

use std::time::Duration;

use redis::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim::change::{Change, Position};
use seriatim::lease::{
    EXPIRE_UNSAID, HostView, Lease, LeaseId, LeaseView, Liveness, Mark, Owner, Part, Pulse, Sighting, View,
};
use seriatim::name::{Epoch, FeedName, HostName, Partition, SessionId};
use seriatim::store::{
    Discarded, Discarding, NotedAction, ParkedFailure, ParkedObject, ParkedState, Paused, Session,
};

use crate::parts::{Parts, Result, list, session, strange, time};

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

/// The id of the last news, which is the mark, and all hosts.
pub(super) fn pulse(answer: Value) -> Result<Pulse> {
    pulse_of(&mut list(answer)?.into_iter())
}

fn pulse_of(answers: &mut impl Iterator<Item = Value>) -> Result<Pulse> {
    let mut next = || answers.next().ok_or_else(|| strange("a short answer"));
    let news = crate::script::string(next()?).ok_or_else(|| strange("no id of news"))?;
    let hosts = hosts(next()?)?;
    Ok(Pulse { mark: Mark(String::from_utf8(news).map_err(strange)?), hosts })
}

/// What people did.
pub(super) fn actions(answer: Value) -> Result<Vec<NotedAction>> {
    let mut parts = Parts::of(answer)?;
    let mut noted = Vec::new();
    while parts.0.len() > 0 {
        let line = parts.text()?;
        let (at, text) = line.split_once(' ').unwrap_or(("0", &line));
        noted.push(NotedAction { at: time(at).unwrap_or_default(), text: text.to_owned() });
    }
    Ok(noted)
}

/// The feeds that are paused.
pub(super) fn paused(answer: Value) -> Result<Vec<Paused>> {
    let mut parts = Parts::of(answer)?;
    let mut paused = Vec::new();
    while parts.0.len() > 0 {
        paused.push(Paused { feed: feed_name(&parts.text()?)?, since: parts.time()? });
    }
    paused.sort_by(|one, other| one.feed.cmp(&other.feed));
    Ok(paused)
}

/// Hosts, by name.
pub(super) fn hosts(answer: Value) -> Result<Vec<HostView>> {
    let mut hosts = list(answer)?.into_iter().map(host).collect::<Result<Vec<_>>>()?;
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(hosts)
}

/// Everything about leases and hosts.
pub(super) fn view(answer: Value) -> Result<View> {
    let mut answers = list(answer)?.into_iter();
    let Pulse { mark, hosts } = pulse_of(&mut answers)?;
    let leases = answers.next().ok_or_else(|| strange("a short answer"))?;
    let leases = list(leases)?.into_iter().map(lease).collect::<Result<Vec<_>>>()?;
    Ok(View { mark, leases, hosts })
}

/// Who holds a name: nobody, or a session with its beat and expiry.
pub(super) fn holder(answer: Value) -> Result<Option<(SessionId, u64, Duration)>> {
    let mut parts = Parts::of(answer)?;
    if parts.0.len() == 0 {
        return Ok(None);
    }
    Ok(Some((parts.session()?, parts.number()?, expire(&parts.text()?)?)))
}

fn expire(text: &str) -> Result<Duration> {
    match text {
        "" => Ok(EXPIRE_UNSAID),
        milliseconds => milliseconds.parse().map(Duration::from_millis).map_err(strange),
    }
}

fn part(text: &str) -> Result<Option<Part>> {
    if text.is_empty() { Ok(None) } else { from_json(text).map(Some) }
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
    let (asked, part) = (parts.number()?, part(&parts.text()?)?);
    Ok(LeaseView { id, owner, epoch, version, position, hand_over_to, asked, part })
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
        expire: expire(&parts.text()?)?,
        progress: parts.number()?,
        liveness: Liveness::Unknown,
    })
}

/// The leases that were acquired; nothing for one when somebody was faster.
pub(super) fn acquired(answer: Value, seen: &[Sighting], by: &Session) -> Result<Vec<Option<Lease>>> {
    let mut parts = Parts::of(answer)?;
    let mut lease = |seen: &Sighting| {
        let (epoch, position, done) = (parts.text()?, parts.text()?, parts.text()?);
        let part = part(&parts.text()?)?;
        if epoch.is_empty() {
            return Ok(None);
        }
        let epoch = Epoch(epoch.parse().map_err(strange)?);
        let (id, session) = (seen.lease.id.clone(), by.id.clone());
        let done = done.parse().map_err(strange)?;
        Ok(Some(Lease { id, session, epoch, position: Position::text(&position), done, part }))
    };
    seen.iter().map(&mut lease).collect()
}

/// One answer for each lease that was asked for.
pub(super) fn asked(answer: Value) -> Result<Vec<bool>> {
    let mut parts = Parts::of(answer)?;
    let mut asked = Vec::new();
    while parts.0.len() > 0 {
        asked.push(parts.text()? == "1");
    }
    Ok(asked)
}

/// The parked objects of a feed.
pub(super) fn parked(answer: Value, feed: &FeedName) -> Result<Vec<ParkedObject>> {
    list(answer)?.into_iter().map(|answer| parked_object(answer, feed)).collect()
}

/// Parked objects, each with its place.
pub(super) fn placed_parked(answer: Value, feed: &FeedName) -> Result<Vec<(String, ParkedObject)>> {
    let mut parts = list(answer)?.into_iter();
    let mut placed = Vec::new();
    while let (Some(place), Some(object)) = (parts.next(), parts.next()) {
        placed.push((Parts::of(Value::Array(vec![place]))?.text()?, parked_object(object, feed)?));
    }
    Ok(placed)
}

fn parked_object(answer: Value, feed: &FeedName) -> Result<ParkedObject> {
    let mut parts = Parts::of(answer)?;
    let mut object = ParkedObject {
        feed: feed.clone(),
        partition: Partition(parts.number()?),
        key: from_json(&parts.text()?)?,
        failure: ParkedFailure {
            error: parts.text()?,
            attempts: parts.number()?,
            state: parked_state(&parts.text()?)?,
            next_try: None,
        },
        since: parts.time()?,
        waiting: parts.number()?,
        bytes: parts.number()?,
    };
    object.failure.next_try = parts.optional(time)?;
    Ok(object)
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
