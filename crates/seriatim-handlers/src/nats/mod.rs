//! The sink `nats`: changes as messages of a JetStream stream, each once.
//!
//! ```text
//!   orders.7   …, last message: Seriatim-Mark of change 12, sequence 40
//!      │ change 13, "only if the last message of this subject is 40"   ──▶ stored as 41
//!      │ change 13 once more, by whoever and however late              ──▶ refused: read the last message, it is held
//! ```
//!
//! A subject for each object: its name has every column of the key in it. The server stores a message only if the subject's last one
//! is the one that the sender knows, so one message of a subject is on its way at a time, and a second sending adds nothing.
//! `Nats-Msg-Id` is there besides, for what a stream deduplicates by itself.

mod message;
mod stream;
mod subject;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context as JetStream};
use async_trait::async_trait;
use futures_util::stream::{self as streams, StreamExt as _};
use seriatim::source::Blocker;
use seriatim::{Change, Context, Failure, Handler};
use tokio::sync::OnceCell;

use crate::command::Progress;
use crate::generations::Generations;
use crate::memory::{Judgement, Mark};
use crate::sink::{Guarantee, Sink};
use crate::{Envelope, Template};
use message::{Last, headers};
pub use subject::BadSubject;
use subject::Subjects;

/// How long the server may take to acknowledge.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// So many subjects of a batch are sent to at the same time.
const AT_ONCE: usize = 64;
/// Of so many subjects the last sequence is kept; others are asked for.
const KNOWN: usize = 100_000;
/// A subject whose last message changes as often as this between two looks is written to by others all the time.
const TRIES: usize = 20;

/// A server with JetStream, and how changes go to it.
#[derive(Clone)]
pub struct NatsSettings {
    /// Where the servers are: `nats://…` or `tls://…`, separated by commas.
    pub url: String,
    /// The subject of a change, with columns in it.
    pub subject: Template,
    /// A file with credentials, as `nsc` writes them.
    pub credentials: Option<std::path::PathBuf>,
    /// The form of changes.
    pub envelope: Envelope,
    /// In which life the feed's partitions are. `None` where the ids of its changes do not rise: then nothing is remembered.
    pub generations: Option<Arc<dyn Generations>>,
}

/// Handles changes by publishing them to JetStream. See the [module](self).
pub struct Nats {
    settings: NatsSettings,
    subjects: Subjects,
    link: OnceCell<JetStream>,
    /// The last messages of subjects: their sequences, and the changes in them.
    known: Mutex<HashMap<String, (u64, Mark)>>,
}

/// What came of one publishing.
enum Published {
    /// With this sequence.
    Stored(u64),
    /// The subject's last message is another one.
    Moved,
    /// The server says that it knows the message by its id.
    Known,
}

impl Nats {
    /// Connects to nothing yet.
    pub fn new(settings: NatsSettings) -> Result<Self, BadSubject> {
        let subjects = Subjects::of(settings.subject.clone())?;
        Ok(Nats { settings, subjects, link: OnceCell::new(), known: Mutex::default() })
    }

    /// The guarantee of the stream that takes the subjects: what retention may delete is not remembered.
    pub async fn guarantee(&self, has_whole_key: bool) -> Guarantee {
        if self.settings.generations.is_none() || !has_whole_key {
            return Guarantee::AtLeastOnce;
        }
        match self.stream().await {
            Ok(config) if stream::keeps_last(&config) => Guarantee::ExactlyOnce,
            _ => Guarantee::Deduplicated,
        }
    }

    /// Whether the server is there and a stream takes the subjects.
    pub async fn reach(&self) -> Result<(), Failure> {
        self.stream().await.map(drop)
    }

    /// The settings under which acknowledged changes can be lost.
    pub async fn risks(&self) -> Vec<Blocker> {
        self.stream().await.map(|config| stream::risks(&config)).unwrap_or_default()
    }

    /// The settings of the stream that takes the subjects.
    async fn stream(&self) -> Result<jetstream::stream::Config, Failure> {
        let (link, every) = (self.link().await?, self.subjects.every());
        let within = |error: String| Failure::target(error);
        let name = tokio::time::timeout(ANSWER_WITHIN, link.stream_by_subject(every.clone())).await;
        let name =
            name.map_err(|_| within("NATS does not answer: is JetStream enabled there?".to_owned()))?;
        let name = name.map_err(|error| {
            within(format!(
                "no stream takes the subjects {every}: {error}; make one, such as with `nats stream add`"
            ))
        })?;
        let found = tokio::time::timeout(ANSWER_WITHIN, link.get_stream(&name)).await;
        let found = found.map_err(|_| within("NATS does not answer".to_owned()))?;
        Ok(found.map_err(|error| within(error.to_string()))?.cached_info().config.clone())
    }

    async fn link(&self) -> Result<&JetStream, Failure> {
        self.link.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<JetStream, Failure> {
        let mut options = ConnectOptions::new()
            .name("seriatim")
            .connection_timeout(CONNECT_WITHIN)
            .request_timeout(Some(ANSWER_WITHIN));
        if let Some(file) = &self.settings.credentials {
            let read = std::fs::read_to_string(file).and_then(|text| options.credentials(&text));
            options = read.map_err(|error| {
                Failure::target(format!("the credentials in {} cannot be used: {error}", file.display()))
            })?;
        }
        let servers: Vec<String> = self.settings.url.split(',').map(|url| url.trim().to_owned()).collect();
        let client = options
            .connect(servers)
            .await
            .map_err(|error| Failure::target(format!("connecting to NATS: {error}")))?;
        let mut link = jetstream::new(client);
        link.set_timeout(ANSWER_WITHIN);
        Ok(link)
    }

    /// Sends one change, and returns when it is held.
    async fn send(&self, change: &Change, context: &Context) -> Result<(), Failure> {
        let Some(subject) = self.subjects.of_change(change) else {
            return Err(Failure::poison(format!(
                "the change has no column for the subject {}",
                self.settings.subject
            )));
        };
        match &self.settings.generations {
            Some(generations) if self.subjects.names_object(change) => {
                let mark = Mark::of(change, generations.of(&context.lease, change.partition).await?);
                self.hold(change, &subject, mark).await
            }
            _ => {
                let publish = self.message(change, None, true);
                self.publish(&subject, publish).await.map(drop)
            }
        }
    }

    /// Sends a change unless it is held.
    async fn hold(&self, change: &Change, subject: &str, mark: Mark) -> Result<(), Failure> {
        // A subject that is not known is taken for a new one: if it is not, the server says so.
        let known = self.known(subject);
        let mut sequence = known.map_or(0, |(sequence, _)| sequence);
        let mut judgement = mark.judged_by(known.map(|(_, last)| last));
        let mut with_id = true;
        for _ in 0..TRIES {
            match judgement {
                Judgement::Held => return Ok(()),
                Judgement::Outlived => return Err(outlived(subject)),
                Judgement::Append => {}
            }
            let publish = self.message(change, Some(mark), with_id).expected_last_subject_sequence(sequence);
            match self.publish(subject, publish).await? {
                Published::Stored(stored) => {
                    self.know(subject, stored, mark);
                    return Ok(());
                }
                Published::Moved => {}
                // If its message is not there, it was lost with a leader that had kept its id alone.
                Published::Known => with_id = false,
            }
            let last = self.last(subject).await?;
            (sequence, judgement) = (last.sequence, last.judge(change, mark, subject)?);
            if let Some(last) = last.mark {
                self.know(subject, sequence, last);
            }
        }
        Err(Failure::target(format!("subject {subject} is written to by others all the time")))
    }

    fn message(&self, change: &Change, mark: Option<Mark>, with_id: bool) -> PublishMessage {
        let payload = self.settings.envelope.to_bytes(change).into();
        let headers = headers(change, mark, with_id, &self.settings.envelope);
        PublishMessage::build().payload(payload).headers(headers)
    }

    async fn publish(&self, subject: &str, publish: PublishMessage) -> Result<Published, Failure> {
        let sent = self.link().await?.send_publish(subject.to_owned(), publish).await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(ack) if ack.duplicate => Ok(Published::Known),
            Ok(ack) => Ok(Published::Stored(ack.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(Published::Moved),
            Err(error) => Err(failure(&error, subject)),
        }
    }

    /// The last message of a subject.
    async fn last(&self, subject: &str) -> Result<Last, Failure> {
        let (link, every) = (self.link().await?, self.subjects.every());
        let found = message::last(link, &every, subject);
        match tokio::time::timeout(ANSWER_WITHIN * 2, found).await {
            Ok(found) => found,
            Err(_) => Err(Failure::target("NATS does not answer")),
        }
    }

    fn known(&self, subject: &str) -> Option<(u64, Mark)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(subject).copied()
    }

    fn know(&self, subject: &str, sequence: u64, last: Mark) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(subject.to_owned(), (sequence, last));
    }
}

/// The host of this call is not to send any more.
fn outlived(subject: &str) -> Failure {
    Failure::target(format!(
        "subject {subject} has messages of a later life of the feed, or of a later owner"
    ))
}

/// What a failed publishing means.
fn failure(error: &PublishError, subject: &str) -> Failure {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            Failure::poison(format!("NATS takes no message as large as this: {error}"))
        }
        PublishErrorKind::StreamNotFound => Failure::target(format!(
            "no stream takes the subject {subject}; make one, such as with `nats stream add`"
        )),
        _ => Failure::target(format!("publishing to {subject}: {error}")),
    }
}

impl Sink for Nats {
    fn guarantee() -> Guarantee {
        Guarantee::Deduplicated
    }
}

#[async_trait]
impl Handler for Nats {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let mut progress = Progress::of(changes);
        while let Some(wave) = progress.next_wave() {
            let sending = streams::iter(wave)
                .map(|place| async move { (place, self.send(&changes[place], context).await) });
            let mut sending = sending.buffer_unordered(AT_ONCE);
            while let Some((place, answer)) = sending.next().await {
                progress.note(place, answer);
            }
        }
        progress.result().map_err(|failed| failed.0)
    }

    fn time_for(&self, _: usize, _: Duration) -> Duration {
        // Each step has its own limit, and one that runs out of it is the target's fault, not a change's.
        Duration::MAX
    }
}
