//! `webhook = "…"`: a POST to an address.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim_handlers::{Guarantee, Sink, WebhookSettings, webhook};
use tokio::sync::Notify;

use super::sinks::{Place, SinkKind, SinkSettings};
use crate::config::{Section, Setting};
use crate::error::{Error, Result};

pub const SINK: SinkKind = SinkKind {
    key: "webhook",
    example: r#"webhook = "…""#,
    settings: &["secret", "secret_env"],
    sections: &["headers"],
    read,
};

#[derive(Debug)]
struct Webhook {
    /// The address.
    url: String,
    /// Headers of each request.
    headers: Vec<(String, Hidden)>,
    /// What requests are signed with.
    secrets: Vec<Secret>,
}

/// A text that is never shown.
#[derive(Clone)]
struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where the secret is.
#[derive(Debug)]
enum Secret {
    /// In the configuration.
    Here(Hidden),
    /// In the environment variable of this name.
    Variable(String),
}

fn read(section: &Section<'_>, setting: &Setting<'_>) -> Result<Arc<dyn SinkSettings>> {
    let url = setting.word()?.to_owned();
    webhook::check_url(&url).map_err(|bad| {
        setting.wrong(bad).help(r#"write the whole address: webhook = "https://example.org/changes""#)
    })?;
    let mut headers = Vec::new();
    for (name, value) in section.texts("headers")? {
        let text = value.text()?.to_owned();
        webhook::check_header(&name, &text).map_err(|bad| value.wrong(bad))?;
        headers.push((name, Hidden(text)));
    }
    Ok(Arc::new(Webhook { url, headers, secrets: secrets(section)? }))
}

/// One secret or several, here or in variables.
fn secrets(section: &Section<'_>) -> Result<Vec<Secret>> {
    match (section.get("secret")?, section.get("secret_env")?) {
        (None, None) => Ok(Vec::new()),
        (Some(setting), None) => {
            let secret = |text: String| {
                webhook::check_secret(&text).map_err(|bad| setting.wrong(bad))?;
                Ok(Secret::Here(Hidden(text)))
            };
            setting.words()?.into_iter().map(secret).collect()
        }
        (None, Some(names)) => Ok(names.words()?.into_iter().map(Secret::Variable).collect()),
        (Some(_), Some(variable)) => {
            Err(variable.wrong("cannot be there beside secret").help("remove one of them"))
        }
    }
}

impl Secret {
    /// The secret itself.
    fn resolve(&self, feed: &FeedName) -> Result<String> {
        match self {
            Secret::Here(Hidden(secret)) => Ok(secret.clone()),
            Secret::Variable(name) => match std::env::var(name) {
                Ok(secret) if !secret.is_empty() => Ok(secret),
                _ => Err(Error::usage(format!(
                    "feed.{feed}.handler.secret_env names the variable {name}, which is not set"
                ))
                .help("set it to the secret that both sides know")),
            },
        }
    }
}

impl Webhook {
    fn at(&self, place: &Place<'_>) -> Result<webhook::Webhook> {
        let Place { feed, handler, .. } = place;
        let envelope = place.envelope();
        if envelope.is_binary() && handler.batch != 1 {
            return Err(Error::usage(format!(
                "feed.{feed}.handler.cloudevents_mode is \"binary\", and a request of several changes has no headers for each"
            ))
            .help("add batch = 1, or use cloudevents_mode = \"structured\""));
        }
        let settings = WebhookSettings {
            url: self.url.clone(),
            single: handler.batch == 1,
            timeout: handler.timeout,
            headers: self.headers.iter().map(|(name, Hidden(value))| (name.clone(), value.clone())).collect(),
            envelope,
            secrets: self.secrets.iter().map(|secret| secret.resolve(feed)).collect::<Result<_>>()?,
        };
        webhook::Webhook::new(settings)
            .map_err(|bad| Error::usage(format!("feed.{feed}.handler.webhook {bad}")))
    }
}

#[async_trait]
impl SinkSettings for Webhook {
    async fn guarantee(&self, _: &Place<'_>) -> Guarantee {
        webhook::Webhook::guarantee()
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn secret_variables(&self) -> Vec<&str> {
        let variables = self.secrets.iter().filter_map(|secret| match secret {
            Secret::Variable(name) => Some(name.as_str()),
            Secret::Here(_) => None,
        });
        variables.collect()
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        self.at(place).map(drop)
    }

    async fn reach(&self, place: &Place<'_>) -> Result<()> {
        let help = format!("start what is to listen there, or mend feed.{}.handler.webhook", place.feed);
        let reached = self.at(place)?.reach().await;
        reached.map_err(|failure| Error::failed(failure.to_string()).help(help))
    }

    async fn open(&self, place: &Place<'_>, _: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.at(place)?))
    }
}
