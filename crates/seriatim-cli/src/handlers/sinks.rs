//! The sinks of the program: each is one file here and one line in [`SINKS`].

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::source::Blocker;
use seriatim_handlers::{Envelope, Guarantee, Origin, Sink};
use tokio::sync::Notify;

use super::{command, redis_stream, stdout, webhook};
use crate::config::{CaptureKind, Config, HandlerConfig, Section, Setting};
use crate::error::Result;

/// All sinks, in the order in which the program names them.
pub const SINKS: [SinkKind; 7] =
    [command::SINK, webhook::SINK, stdout::SINK, redis_stream::SINK, NATS, SQS, KAFKA];

/// Known to every build, so that one without it says so.
const NATS: SinkKind = SinkKind {
    key: "nats",
    example: r#"nats = "…""#,
    settings: &["url", "url_env", "credentials"],
    sections: &[],
    #[cfg(feature = "nats")]
    read: super::nats::read,
    #[cfg(not(feature = "nats"))]
    read: |_, setting| {
        Err(setting
            .wrong("needs NATS, which this build has not")
            .help("build it with `cargo build --release --features nats`"))
    },
};

/// Known to every build, so that one without it says so.
const SQS: SinkKind = SinkKind {
    key: "sqs",
    example: r#"sqs = "…""#,
    settings: &["url", "url_env", "key"],
    sections: &[],
    #[cfg(feature = "sqs")]
    read: super::sqs::read,
    #[cfg(not(feature = "sqs"))]
    read: |_, setting| {
        Err(setting
            .wrong("needs SQS, which this build has not")
            .help("build it with `cargo build --release --features sqs`"))
    },
};

/// Named so that nobody looks for a typing error: there is no such sink.
const KAFKA: SinkKind = SinkKind {
    key: "kafka",
    example: "",
    settings: &["brokers", "key"],
    sections: &[],
    read: |_, setting| {
        Err(setting.wrong("asks for Kafka, which Seriatim cannot write to yet").help(
            "use redis_stream, nats or sqs, or a command that writes to Kafka by itself: command = [\"…\"]",
        ))
    },
};

/// One kind of sink, as `[feed.X.handler]` has it.
pub struct SinkKind {
    /// The setting that asks for it.
    pub key: &'static str,
    /// How that is written. Empty for one that is refused.
    pub example: &'static str,
    /// The other settings that only it has.
    pub settings: &'static [&'static str],
    /// The sections that only it has.
    pub sections: &'static [&'static str],
    /// Reads its settings.
    pub read: fn(&Section<'_>, &Setting<'_>) -> Result<Arc<dyn SinkSettings>>,
}

/// The settings of one sink.
#[async_trait]
pub trait SinkSettings: Debug + Send + Sync {
    /// What the sink promises for this feed, as far as is known: a target that is away cannot be asked.
    async fn guarantee(&self, place: &Place<'_>) -> Guarantee;

    /// The sizes of batches and the number of calls at the same time, where nobody says.
    fn batch_and_concurrency(&self) -> (u32, u32) {
        (100, 8)
    }

    /// Whether `once = true` may stand beside it.
    fn may_be_remembered(&self) -> bool {
        true
    }

    /// Whether the sink knows the changes that it holds. Then a rewind begins another generation of them.
    fn remembers(&self) -> bool {
        false
    }

    /// Whether messages have headers, for attributes of CloudEvents in the binary mode.
    fn has_headers(&self) -> bool {
        false
    }

    /// The variables of the environment that have secrets of it.
    fn secret_variables(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether it is set up rightly. Whether its target is there does not matter yet: it may come.
    fn check(&self, place: &Place<'_>) -> Result<()>;

    /// Whether its target is there.
    async fn reach(&self, place: &Place<'_>) -> Result<()>;

    /// Settings of its target under which it can lose what it acknowledged.
    async fn risks(&self, place: &Place<'_>) -> Vec<Blocker> {
        let _ = place;
        Vec::new()
    }

    /// What is odd about its settings, and may be meant so.
    fn warnings(&self, place: &Place<'_>) -> Vec<Blocker> {
        let _ = place;
        Vec::new()
    }

    /// The sink itself. `closed` is told when nobody reads what it writes any more.
    async fn open(&self, place: &Place<'_>, closed: &Arc<Notify>) -> Result<Arc<dyn Sink>>;
}

/// What a sink is for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The feed whose changes it gets.
    pub feed: &'a FeedName,
    /// The settings that all handlers have.
    pub handler: &'a HandlerConfig,
    /// All settings.
    pub config: &'a Config,
}

impl Place<'_> {
    /// The form in which the changes leave.
    pub fn envelope(&self) -> Envelope {
        Envelope::new(self.handler.format, self.origin()).in_mode(self.handler.mode)
    }

    /// Whether a later change of an object always has a greater id: then a sink can tell by it what it holds.
    pub fn ids_rise(&self) -> bool {
        let capture = self.config.feeds.get(self.feed).map(|feed| feed.capture);
        matches!(capture, Some(CaptureKind::Journal | CaptureKind::Log))
    }

    /// Whether a change has the same id each time it comes, and no other change of the feed ever has it.
    pub fn ids_are_kept(&self) -> bool {
        let capture = self.config.feeds.get(self.feed).map(|feed| feed.capture);
        matches!(capture, Some(CaptureKind::Journal | CaptureKind::Log | CaptureKind::Wal))
    }

    /// Where the changes come from, in Debezium's words.
    fn origin(&self) -> Origin {
        let Some(feed) = self.config.feeds.get(self.feed) else { return Origin::default() };
        let (schema, table) = match feed.table.split_once('.') {
            Some((schema, table)) => (Some(schema.to_owned()), table.to_owned()),
            None => (None, feed.table.clone()),
        };
        Origin {
            connector: feed.database.name().to_lowercase(),
            name: feed.source.clone(),
            db: feed.database.database_name(),
            schema: schema.or_else(|| feed.database.default_schema().map(str::to_owned)),
            table,
        }
    }
}
