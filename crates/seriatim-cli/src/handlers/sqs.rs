//! `sqs = "…"`: messages of an SQS FIFO queue, deduplicated for five minutes.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim_handlers::sqs::{QueueAddress, Sqs, SqsSettings};
use seriatim_handlers::{Generations, Guarantee, Sink, Template};
use tokio::sync::Notify;

use super::address::Target;
use super::sinks::{Place, SinkSettings};
use super::{generations, template};
use crate::config::{Section, Setting};
use crate::databases;
use crate::error::{Error, Result};

#[derive(Debug)]
struct ToSqs {
    queue: String,
    /// Where the service is, if not where the queue's address and the environment say.
    endpoint: Option<Target>,
    group: Option<Template>,
}

pub fn read(section: &Section<'_>, setting: &Setting<'_>) -> Result<Arc<dyn SinkSettings>> {
    let queue = setting.word()?.to_owned();
    // Whether it can be a queue. Who may write to it is for the environment of each command to say.
    let said = |name: &str| (!name.starts_with("AWS_ENDPOINT")).then(|| "said".to_owned());
    QueueAddress::parse(&queue, None, said).map_err(|bad| setting.wrong(bad))?;
    let has_endpoint = section.get("url")?.is_some() || section.get("url_env")?.is_some();
    let endpoint =
        has_endpoint.then(|| Target::read(section, "https://sqs.eu-west-1.amazonaws.com")).transpose()?;
    Ok(Arc::new(ToSqs { queue, endpoint, group: template(section, "key")? }))
}

impl ToSqs {
    fn with(&self, place: &Place<'_>, generations: Option<Arc<dyn Generations>>) -> Result<Sqs> {
        let endpoint = self.endpoint.as_ref().map(|endpoint| endpoint.resolve(place.feed)).transpose()?;
        let queue = QueueAddress::from_url(&self.queue, endpoint)
            .map_err(|bad| Error::usage(format!("feed.{}.handler.sqs {bad}", place.feed)))?;
        let (group, envelope) = (self.group.clone(), place.envelope());
        Ok(Sqs::new(SqsSettings { queue, group, envelope, generations }))
    }

    /// An object that changes its group would lose its order between the two, so groups are made of the key alone.
    async fn check_group(&self, place: &Place<'_>) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let Some(feed) = place.config.feeds.get(place.feed) else { return Ok(()) };
        let key = match &feed.key {
            Some(key) => key.clone(),
            None => databases::capture(feed).shape().await?.key.clone(),
        };
        match group.columns().find(|column| !key.iter().any(|of_key| of_key == column)) {
            None => Ok(()),
            Some(column) => Err(Error::usage(format!(
                "feed.{}.handler.key has the column {column:?}, which is not of the object's key: an object that changes it would change its message group, and lose its order",
                place.feed
            ))
            .help(format!("use columns of the key alone: {}", key.join(", ")))),
        }
    }
}

#[async_trait]
impl SinkSettings for ToSqs {
    async fn guarantee(&self, place: &Place<'_>) -> Guarantee {
        Sqs::guarantee_with(place.ids_are_kept())
    }

    fn remembers(&self) -> bool {
        true
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn secret_variables(&self) -> Vec<&str> {
        self.endpoint.as_ref().and_then(Target::variable).into_iter().collect()
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        self.with(place, None).map(drop)
    }

    async fn reach(&self, place: &Place<'_>) -> Result<()> {
        self.check_group(place).await?;
        let help = format!("start it there, make the queue, or mend feed.{}.handler", place.feed);
        let reached = self.with(place, None)?.reach().await;
        reached.map_err(|failure| Error::failed(failure.to_string()).help(help))
    }

    async fn open(&self, place: &Place<'_>, _: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        self.check_group(place).await?;
        let generations = match place.ids_are_kept() {
            true => Some(generations(place).await?),
            false => None,
        };
        Ok(Arc::new(self.with(place, generations)?))
    }
}
