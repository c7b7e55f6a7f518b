//! What the scripts answer.

use redis::Value;
use seriatim::lease::{HostView, Liveness};
use seriatim::name::{Epoch, HostName, ObjectName, SessionId};
use seriatim::order::{EventId, links};
use seriatim::queue::{
    Body, DiscardedEvents, Event, Hold, Next, ObjectView, ParkedEvents, Take, Taken, WorkerSession,
};
use seriatim::store::{ParkedFailure, ParkedState};

use super::{Adopted, name};
use crate::parts::{Parts, Result, list, session, strange, time};

/// Names that producers gave may be anything.
fn object(parts: &mut Parts) -> Result<ObjectName> {
    Ok(name::shown(&parts.bytes()?))
}

fn id(text: &str) -> Option<EventId> {
    text.parse().ok().map(EventId)
}

/// What a session holds; nothing when it was replaced.
pub(super) fn holds(answer: Value, of: &WorkerSession) -> Result<Option<Vec<Hold>>> {
    let mut parts = Parts::of(answer)?;
    if parts.0.next().is_none() {
        return Ok(None);
    }
    let mut holds = Vec::new();
    while parts.0.len() > 0 {
        let object = object(&mut parts)?;
        let (epoch, _) = token(&parts.text()?)?;
        holds.push(Hold { object, session: of.clone(), epoch });
    }
    Ok(Some(holds))
}

fn token(text: &str) -> Result<(Epoch, SessionId)> {
    let (epoch, id) = text.split_once(':').ok_or_else(|| strange(text))?;
    Ok((Epoch(epoch.parse().map_err(|_| strange(text))?), session(id)?))
}

/// All workers, by name.
pub(super) fn workers(answer: Value) -> Result<Vec<HostView>> {
    let mut views = list(answer)?.into_iter().map(worker).collect::<Result<Vec<_>>>()?;
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(views)
}

fn worker(answer: Value) -> Result<HostView> {
    let mut parts = Parts::of(answer)?;
    Ok(HostView {
        name: HostName::new(&parts.text()?).map_err(strange)?,
        session: parts.session()?,
        feeds: Vec::new(),
        beat: parts.number()?,
        progress: 0,
        seen_at: parts.time()?,
        expire: parts.expire()?,
        troubles: Vec::new(),
        liveness: Liveness::Unknown,
    })
}

/// What came of taking an object.
pub(super) enum Taking {
    /// It is to be tried again.
    Again,
    /// This one cannot be sent and was set aside; it is to be tried again.
    Refused { object: ObjectName, why: String },
    /// This.
    Done(Take),
}

/// What was taken.
pub(super) fn take(answer: Value, by: &WorkerSession) -> Result<Taking> {
    let mut parts = Parts::of(answer)?;
    Ok(Taking::Done(match parts.text()?.as_str() {
        "lost" => Take::SessionLost,
        "nothing" => Take::Nothing,
        "again" => return Ok(Taking::Again),
        "refused" => return Ok(Taking::Refused { object: object(&mut parts)?, why: parts.text()? }),
        "taken" => {
            let object = object(&mut parts)?;
            let epoch = Epoch(parts.number()?);
            let events = events(&mut parts, &object)?;
            Take::Taken(Taken { hold: Hold { object, session: by.clone(), epoch }, events })
        }
        other => return Err(strange(other)),
    }))
}

/// What comes next.
pub(super) fn next(answer: Value, object: &ObjectName) -> Result<Next> {
    let mut parts = Parts::of(answer)?;
    match parts.text()?.as_str() {
        "lost" => Ok(Next::Lost),
        "released" => Ok(Next::Released),
        "events" => Ok(Next::Events(events(&mut parts, object)?)),
        other => Err(strange(other)),
    }
}

/// What is to be sent; it comes newest first.
fn events(parts: &mut Parts, object: &ObjectName) -> Result<Vec<Event>> {
    let first = EventId(parts.number()?);
    let last = parts.optional(id)?;
    let at = parts.time()?;
    let links = links(first, last, parts.0.len());
    let bodies = parts.0.by_ref().rev();
    Ok(links
        .zip(bodies)
        .map(|(link, body)| Event { object: object.clone(), link, at, body: Body::bytes(&body) })
        .collect())
}

/// An object as it is.
pub(super) fn view(answer: Value, object: &ObjectName) -> Result<Option<ObjectView>> {
    let mut parts = Parts::of(answer)?;
    if parts.0.len() == 0 {
        return Ok(None);
    }
    let waiting = parts.number()?;
    let sending: usize = parts.number()?;
    let first = parts.optional(id)?;
    let last = parts.optional(id)?;
    let worker = parts.optional(|name| HostName::new(name).ok())?;
    let hold = parts.optional(|text| token(text).ok())?;
    let joined = parts.text()?;
    let listed_by_holder = parts.text()? == "1";
    let queued = parts.text()? == "1";
    let error = parts.text()?;
    let attempts = parts.optional(|text| text.parse().ok())?;
    let since = parts.optional(time)?;
    let counter = parts.number()?;
    let others = parts.0.map(|name| HostName::new(&String::from_utf8_lossy(&name)).map_err(strange));
    let listed_by_others = others.collect::<Result<Vec<_>>>()?;
    let holder = worker.zip(hold).map(|(worker, (epoch, id))| Hold {
        object: object.clone(),
        session: WorkerSession { worker, id },
        epoch,
    });
    let state = ParkedState::Parked;
    let parked = attempts.zip(since).map(|(attempts, since)| ParkedEvents {
        failure: ParkedFailure { error, attempts, state, next_try: None },
        since,
    });
    Ok(Some(ObjectView {
        object: object.clone(),
        waiting,
        sending: first
            .map(|first| links(first, last, sending).map(|link| link.id()).collect())
            .unwrap_or_default(),
        last,
        holder_is_joined: holder.as_ref().is_some_and(|hold| hold.session.id.as_str() == joined),
        holder,
        listed_by_holder,
        listed_by_others,
        queued,
        parked,
        counter,
    }))
}

/// The next cursor, and names.
pub(super) fn names(answer: Value) -> Result<(String, Vec<ObjectName>)> {
    let mut parts = Parts::of(answer)?;
    let cursor = parts.text()?;
    let mut names = Vec::new();
    while parts.0.len() > 0 {
        names.push(object(&mut parts)?);
    }
    Ok((cursor, names))
}

/// What was taken over from workers of before.
pub(super) fn adopted(answer: Value) -> Result<(String, Vec<Adopted>)> {
    let mut parts = Parts::of(answer)?;
    let cursor = parts.text()?;
    let mut adopted = Vec::new();
    while parts.0.len() > 0 {
        let worker = String::from_utf8_lossy(&parts.bytes()?).into_owned();
        adopted.push(Adopted { worker, object: object(&mut parts)?, id: parts.optional(id)? });
    }
    Ok((cursor, adopted))
}

/// What `discard.lua` keeps.
#[derive(serde::Deserialize)]
struct Gone {
    object: String,
    first: String,
    last: String,
    events: String,
    error: String,
    reason: String,
    at: String,
}

/// What was discarded.
pub(super) fn discarded(answer: Value) -> Result<Vec<DiscardedEvents>> {
    let mut parts = Parts::of(answer)?;
    let mut all = Vec::new();
    while parts.0.len() > 0 {
        let gone: Gone = serde_json::from_str(&String::from_utf8_lossy(&parts.bytes()?)).map_err(strange)?;
        all.push(DiscardedEvents {
            object: ObjectName::found(&gone.object),
            first: id(&gone.first).ok_or_else(|| strange(&gone.first))?,
            last: id(&gone.last).ok_or_else(|| strange(&gone.last))?,
            events: gone.events.parse().map_err(strange)?,
            error: gone.error,
            reason: gone.reason,
            at: time(&gone.at).ok_or_else(|| strange(&gone.at))?,
        });
    }
    Ok(all)
}

/// How long one of the two lists of an object is.
pub(super) type Length = ((ObjectName, String), u64);

/// The next cursor, and how long lists are.
pub(super) fn lengths(answer: Value) -> Result<(String, Vec<Length>)> {
    let mut parts = Parts::of(answer)?;
    let cursor = parts.text()?;
    let mut lengths = Vec::new();
    while parts.0.len() > 0 {
        lengths.push(((object(&mut parts)?, parts.text()?), parts.number()?));
    }
    Ok((cursor, lengths))
}

/// The next cursor, and how many keys a step has dealt with.
pub(super) fn step(answer: Value) -> Result<(String, u64)> {
    let mut parts = Parts::of(answer)?;
    Ok((parts.text()?, parts.number()?))
}
