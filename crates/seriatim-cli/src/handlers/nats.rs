//! `nats = "…"`: messages of a JetStream stream, each change once.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::source::Blocker;
use seriatim_handlers::nats::{Nats, NatsSettings};
use seriatim_handlers::{Generation, Generations, Guarantee, Sink, Template};
use tokio::sync::Notify;

use super::address::Target;
use super::generations;
use super::sinks::{Place, SinkSettings};
use crate::config::{Section, Setting};
use crate::databases;
use crate::error::{Error, Result};

#[derive(Debug)]
struct ToNats {
    subject: Template,
    target: Target,
    credentials: Option<PathBuf>,
}

pub fn read(section: &Section<'_>, setting: &Setting<'_>) -> Result<Arc<dyn SinkSettings>> {
    let help = r#"give each object a subject of its own: nats = "orders.{id}""#;
    let subject = Template::parse(setting.word()?).map_err(|bad| setting.wrong(bad).help(help))?;
    let target = Target::read(section, "nats://127.0.0.1:4222")?;
    let credentials = section.get("credentials")?.map(|file| file.word().map(PathBuf::from)).transpose()?;
    let sink = ToNats { subject, target, credentials };
    Nats::new(sink.settings(String::new(), None, None)).map_err(|bad| setting.wrong(bad).help(help))?;
    Ok(Arc::new(sink))
}

impl ToNats {
    fn settings(
        &self,
        url: String,
        place: Option<&Place<'_>>,
        generations: Option<Arc<dyn Generations>>,
    ) -> NatsSettings {
        let folder = place.and_then(|place| place.config.file.parent());
        let credentials = self.credentials.as_ref();
        NatsSettings {
            url,
            subject: self.subject.clone(),
            // Paths are relative to the config file.
            credentials: credentials
                .map(|file| folder.map_or_else(|| file.clone(), |folder| folder.join(file))),
            envelope: place.map(Place::envelope).unwrap_or_default(),
            generations,
        }
    }

    fn with(&self, place: &Place<'_>, generations: Option<Arc<dyn Generations>>) -> Result<Nats> {
        let url = self.target.resolve(place.feed)?;
        Nats::new(self.settings(url, Some(place), generations))
            .map_err(|bad| Error::usage(format!("feed.{}.handler.nats {bad}", place.feed)))
    }

    async fn at(&self, place: &Place<'_>) -> Result<Nats> {
        let generations = match place.ids_rise() {
            true => Some(generations(place).await?),
            false => None,
        };
        self.with(place, generations)
    }

    /// Whether the subject has every column of the key in it, as far as is known.
    async fn has_whole_key(&self, place: &Place<'_>) -> bool {
        let Some(feed) = place.config.feeds.get(place.feed) else { return false };
        let key = match &feed.key {
            Some(key) => key.clone(),
            None => match databases::capture(feed).shape().await {
                Ok(shape) => shape.key.clone(),
                Err(_) => return false,
            },
        };
        key.iter().all(|column| self.subject.columns().any(|named| named == column))
    }
}

#[async_trait]
impl SinkSettings for ToNats {
    async fn guarantee(&self, place: &Place<'_>) -> Guarantee {
        // To look makes nothing in the store: any generation will do.
        let generations = place.ids_rise().then(|| Arc::new(Generation(0)) as Arc<dyn Generations>);
        match self.with(place, generations) {
            Ok(nats) => nats.guarantee(self.has_whole_key(place).await).await,
            Err(_) => Guarantee::AtLeastOnce,
        }
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
        let help =
            format!("start NATS with JetStream there, make the stream, or mend feed.{}.handler", place.feed);
        let reached = self.with(place, None)?.reach().await;
        reached.map_err(|failure| Error::failed(failure.to_string()).help(help))
    }

    async fn risks(&self, place: &Place<'_>) -> Vec<Blocker> {
        match self.with(place, None) {
            Ok(nats) => nats.risks().await,
            Err(_) => Vec::new(),
        }
    }

    async fn open(&self, place: &Place<'_>, _: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.at(place).await?))
    }
}
