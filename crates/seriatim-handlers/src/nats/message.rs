//! The headers of messages, and what the last message of a subject says.

use async_nats::HeaderMap;
use async_nats::jetstream::Context as JetStream;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use seriatim::{Change, Failure};
use xxhash_rust::xxh64::xxh64;

use crate::memory::{Judgement, Mark};
use crate::{Envelope, envelope};

const FEED: &str = "Seriatim-Feed";
const MARK: &str = "Seriatim-Mark";
const OBJECT: &str = "Seriatim-Object";

/// The headers of a change's message.
pub fn headers(change: &Change, mark: Option<Mark>, with_id: bool, envelope: &Envelope) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let feed = escaped(change.feed.as_str());
    let generation = mark.map_or(0, |mark| mark.generation.0);
    if with_id {
        headers.insert("Nats-Msg-Id", format!("{feed}/{generation}/{}", envelope::identity(change)));
    }
    headers.insert(FEED, feed);
    headers.insert("Seriatim-Id", change.id.to_string());
    headers.insert("Seriatim-Op", change.op.as_str());
    if let Some(prev) = change.prev {
        headers.insert("Seriatim-Prev", prev.to_string());
    }
    if let Some(mark) = mark {
        headers.insert(MARK, mark.to_string());
        headers.insert(OBJECT, object(change));
    }
    for (name, value) in envelope.attributes(change) {
        headers.insert(format!("ce-{name}"), escaped(&value));
    }
    headers.insert("Content-Type", envelope.content_type(true));
    headers
}

/// A digest of the object, to tell it from others.
fn object(change: &Change) -> String {
    let identity = change.key.as_ref().map_or_else(|| format!("*{}", change.partition), |key| key.identity());
    format!("{:016x}", xxh64(identity.as_bytes(), 0))
}

/// Text as a header can have it.
fn escaped(text: &str) -> String {
    crate::webhook::escaped(text)
}

/// The last message of a subject; without one, its sequence is zero.
#[derive(Debug, Default)]
pub struct Last {
    pub sequence: u64,
    feed: Option<String>,
    object: Option<String>,
    pub mark: Option<Mark>,
}

impl Last {
    /// What is to be done with a change behind this message.
    pub fn judge(&self, change: &Change, mark: Mark, subject: &str) -> Result<Judgement, Failure> {
        if self.sequence == 0 {
            return Ok(Judgement::Append);
        }
        let own = self.feed.as_deref() == Some(&escaped(change.feed.as_str()));
        match self.mark {
            Some(last) if own && self.object.as_deref() == Some(&object(change)) => {
                Ok(mark.judged_by(Some(last)))
            }
            _ => Err(Failure::change(format!(
                "the last message of subject {subject} is not one of this feed's changes of this object: what the stream holds cannot be told from it; give each feed subjects of its own, with every column of the key in them"
            ))),
        }
    }
}

/// Reads the last message of a subject.
pub async fn last(link: &JetStream, every: &str, subject: &str) -> Result<Last, Failure> {
    let target = |error: String| Failure::target(format!("reading the last message of {subject}: {error}"));
    let name = link.stream_by_subject(every).await.map_err(|error| target(error.to_string()))?;
    let stream = link.get_stream_no_info(&name).await.map_err(|error| target(error.to_string()))?;
    let message = match stream.get_last_raw_message_by_subject(subject).await {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(Last::default()),
        Err(error) => return Err(target(error.to_string())),
    };
    let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
    Ok(Last {
        sequence: message.sequence,
        feed: header(FEED),
        object: header(OBJECT),
        mark: header(MARK).and_then(|mark| mark.parse().ok()),
    })
}
