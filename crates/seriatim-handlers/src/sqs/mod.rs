//! The sink `sqs`: changes as messages of an SQS FIFO queue, deduplicated for five minutes.
//!
//! ```text
//!   batch of a feed     7 7 8 9 7 …      changes, by their objects
//!   first call          7 8 9            of each object one, at most ten: whichever fails, nothing later of its group is sent yet
//!   second call           7              when the one before it is acknowledged
//! ```
//!
//! A group for each object, and an id for deduplication made of the feed, the life of its partition and the change. SQS drops a message
//! whose id it accepted within the last five minutes. It cannot tell what it holds, so nothing more can be promised.

mod address;
mod error;
mod message;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use futures_util::stream::{self as streams, StreamExt as _};
use seriatim::{Change, Context, Failure, Handler};

pub use address::{BadQueue, QueueAddress};

use crate::command::Progress;
use crate::generations::Generations;
use crate::sink::{Guarantee, Sink};
use crate::{Envelope, Template};
use message::{Message, chunks};

/// So many requests are under way at the same time.
const AT_ONCE: usize = 8;

/// A queue, and how changes go to it.
#[derive(Clone)]
pub struct SqsSettings {
    /// The queue, where it is, and by which right it is written to.
    pub queue: QueueAddress,
    /// The message group of a change; the object's key where there is none.
    pub group: Option<Template>,
    /// The form of changes.
    pub envelope: Envelope,
    /// In which life the feed's partitions are. `None` where ids do not tell changes apart for good: then every sending is a message.
    pub generations: Option<Arc<dyn Generations>>,
}

/// Handles changes by sending them to an SQS FIFO queue. See the [module](self).
pub struct Sqs {
    settings: SqsSettings,
    client: Client,
}

impl Sqs {
    /// Connects to nothing yet.
    pub fn new(settings: SqsSettings) -> Self {
        Sqs { client: settings.queue.client(), settings }
    }

    /// The guarantee, where ids tell changes apart for good, or do not.
    pub fn guarantee_with(ids_are_kept: bool) -> Guarantee {
        if ids_are_kept { Guarantee::Deduplicated } else { Guarantee::AtLeastOnce }
    }

    /// Whether the queue is there, and is a FIFO queue.
    pub async fn reach(&self) -> Result<(), Failure> {
        let url = self.settings.queue.url();
        let asked = self.client.get_queue_attributes().queue_url(url);
        let told = asked.attribute_names(QueueAttributeName::FifoQueue).send().await;
        let told = told.map_err(|error| error::failure("asking for the queue", url, &error))?;
        let is_fifo = told.attributes().and_then(|all| all.get(&QueueAttributeName::FifoQueue));
        match is_fifo.map(String::as_str) {
            Some("true") => Ok(()),
            _ => Err(Failure::target(format!("queue {url} is no FIFO queue, so it keeps no order"))),
        }
    }

    async fn message(&self, change: &Change, context: &Context) -> Result<Message, Failure> {
        let generation = match &self.settings.generations {
            Some(generations) => Some(generations.of(&context.lease, change.partition).await?),
            None => None,
        };
        message::of(change, generation, self.settings.group.as_ref(), &self.settings.envelope)
    }

    /// Sends these messages in one request, and returns an answer for each by its place.
    async fn send(&self, messages: &[(usize, Message)]) -> Vec<(usize, Result<(), Failure>)> {
        match self.request(messages).await {
            Ok(answers) => answers,
            // One of them is not to the service's liking, and it did not say which.
            Err(failure) if error::is_of_a_message(&failure) && messages.len() > 1 => {
                let mut answers = Vec::with_capacity(messages.len());
                for message in messages.chunks(1) {
                    let answer = self.request(message).await;
                    answers.extend(answer.unwrap_or_else(|failure| vec![(message[0].0, Err(failure))]));
                }
                answers
            }
            Err(failure) => {
                let each = messages.iter().skip(1).map(|(place, _)| {
                    (*place, Err(Failure { kind: failure.kind, ..Failure::target(failure.to_string()) }))
                });
                let mut answers: Vec<_> = each.collect();
                answers.push((messages[0].0, Err(failure)));
                answers
            }
        }
    }

    async fn request(
        &self,
        messages: &[(usize, Message)],
    ) -> Result<Vec<(usize, Result<(), Failure>)>, Failure> {
        let url = self.settings.queue.url();
        let entries = messages
            .iter()
            .map(|(place, message)| message.entry(*place))
            .collect::<Result<Vec<SendMessageBatchRequestEntry>, _>>()
            .map_err(|error| Failure::poison(format!("the change is no message for SQS: {error}")))?;
        let sent = self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await;
        let sent = sent.map_err(|error| error::failure("sending to the queue", url, &error))?;
        let is_sent = |place: usize| sent.successful().iter().any(|entry| entry.id() == place.to_string());
        let answer = |place: usize| {
            let failed = sent.failed().iter().find(|entry| entry.id() == place.to_string());
            match failed {
                Some(entry) => Err(error::of_entry(entry, url)),
                None if is_sent(place) => Ok(()),
                None => Err(Failure::target(format!("queue {url} did not acknowledge a message"))),
            }
        };
        Ok(messages.iter().map(|(place, _)| (*place, answer(*place))).collect())
    }
}

impl Sink for Sqs {
    fn guarantee() -> Guarantee {
        Guarantee::Deduplicated
    }
}

#[async_trait]
impl Handler for Sqs {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        let mut progress = Progress::of(changes);
        // Of each object one at a time: a request may fail for some of its messages and not for those behind them.
        while let Some(wave) = progress.next_wave() {
            let mut messages = Vec::with_capacity(wave.len());
            for place in wave {
                match self.message(&changes[place], context).await {
                    Ok(message) => messages.push((place, message)),
                    Err(failure) => progress.note(place, Err(failure)),
                }
            }
            let sending = streams::iter(chunks(messages)).map(|some| async move { self.send(&some).await });
            let mut sending = sending.buffer_unordered(AT_ONCE);
            while let Some(answers) = sending.next().await {
                answers.into_iter().for_each(|(place, answer)| progress.note(place, answer));
            }
        }
        progress.result().map_err(|failed| failed.0)
    }

    fn time_for(&self, _: usize, _: Duration) -> Duration {
        // Each request has its own limit, and one that runs out of it is the target's fault, not a change's.
        Duration::MAX
    }
}
