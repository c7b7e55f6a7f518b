//! `redis_stream = "…"`: entries of a Redis Stream, each change once.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::source::Blocker;
use seriatim_handlers::redis_stream::{BadStream, RedisStream, StreamSettings};
use seriatim_handlers::{Guarantee, Sink, Template};
use tokio::sync::Notify;

use super::address::Target;
use super::sinks::{Place, SinkKind, SinkSettings};
use super::{generations, template};
use crate::config::{Section, Setting};
use crate::error::{Error, Result};

pub const SINK: SinkKind = SinkKind {
    key: "redis_stream",
    example: r#"redis_stream = "…""#,
    settings: &["url", "url_env", "key", "max_entries", "trim_unread"],
    sections: &[],
    read,
};

#[derive(Debug)]
struct ToStream {
    stream: String,
    target: Target,
    key: Option<Template>,
    most_entries: Option<u64>,
}

fn read(section: &Section<'_>, setting: &Setting<'_>) -> Result<Arc<dyn SinkSettings>> {
    let stream = setting.word()?.to_owned();
    let target = Target::read(section, "redis://127.0.0.1:6379")?;
    Ok(Arc::new(ToStream {
        stream,
        target,
        key: template(section, "key")?,
        most_entries: most_entries(section)?,
    }))
}

/// Redis drops the oldest entries whether or not anybody has read them: that is for the user to say.
fn most_entries(section: &Section<'_>) -> Result<Option<u64>> {
    let consent = section.get("trim_unread")?;
    let consents = consent.as_ref().map_or(Ok(false), |consent| consent.truth())?;
    match section.get("max_entries")? {
        Some(most) if !consents => Err(most
            .wrong("has Redis drop the oldest entries, also those that nobody has read")
            .help("add trim_unread = true to say that this is wanted, or remove it and trim by what your consumers have read")),
        Some(most) => Ok(Some(u64::from(most.count(u32::MAX)?))),
        None if consents => match consent {
            Some(consent) => Err(consent.wrong("means nothing without max_entries").help("add it, or remove this")),
            None => Ok(None),
        },
        None => Ok(None),
    }
}

impl ToStream {
    async fn at(&self, place: &Place<'_>) -> Result<RedisStream> {
        let generations = match place.ids_rise() {
            true => Some(generations(place).await?),
            false => None,
        };
        self.with(place, generations)
    }

    fn with(
        &self,
        place: &Place<'_>,
        generations: Option<Arc<dyn seriatim_handlers::Generations>>,
    ) -> Result<RedisStream> {
        let feed = place.feed;
        let settings = StreamSettings {
            url: self.target.resolve(feed)?,
            stream: self.stream.clone(),
            feed: feed.to_string(),
            key: self.key.clone(),
            most_entries: self.most_entries,
            envelope: place.envelope(),
            generations,
        };
        RedisStream::new(settings).map_err(|bad| match bad {
            BadStream::Name(_) => Error::usage(format!("feed.{feed}.handler.redis_stream {bad}")),
            BadStream::Url(bad) => {
                let error = Error::usage(format!("feed.{feed}.handler.url cannot be used: {bad}"));
                bad.remedy().map(str::to_owned).into_iter().fold(error, Error::help)
            }
        })
    }
}

#[async_trait]
impl SinkSettings for ToStream {
    async fn guarantee(&self, place: &Place<'_>) -> Guarantee {
        RedisStream::guarantee_with(place.ids_rise())
    }

    fn may_be_remembered(&self) -> bool {
        false
    }

    fn remembers(&self) -> bool {
        true
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn secret_variables(&self) -> Vec<&str> {
        self.target.variable().into_iter().collect()
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        self.with(place, None).map(drop)
    }

    async fn reach(&self, place: &Place<'_>) -> Result<()> {
        let help = format!("start Redis there, or mend feed.{}.handler.url", place.feed);
        let reached = self.with(place, None)?.reach().await;
        reached.map_err(|failure| Error::failed(failure.to_string()).help(help))
    }

    async fn risks(&self, place: &Place<'_>) -> Vec<Blocker> {
        match self.with(place, None) {
            Ok(stream) => stream.risks().await,
            Err(_) => Vec::new(),
        }
    }

    async fn open(&self, place: &Place<'_>, _: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.at(place).await?))
    }
}
