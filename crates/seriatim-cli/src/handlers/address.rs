//! `url` and `url_env` of a sink: where its target is. Never shown with a password.

use std::fmt;

use seriatim::FeedName;

use crate::config::{Section, redacted};
use crate::error::{Error, Result};

/// Where a sink's target is.
pub enum Target {
    /// At this address.
    Here(String),
    /// At the address in the environment variable of this name.
    Variable(String),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Here(url) => write!(f, "{:?}", redacted(url)),
            Target::Variable(name) => write!(f, "${name}"),
        }
    }
}

impl Target {
    /// Reads the section's one address.
    pub fn read(section: &Section<'_>, example: &str) -> Result<Self> {
        match (section.get("url")?, section.get("url_env")?) {
            (Some(url), None) => Ok(Target::Here(url.word()?.to_owned())),
            (None, Some(variable)) => Ok(Target::Variable(variable.word()?.to_owned())),
            (Some(_), Some(variable)) => {
                Err(variable.wrong("cannot be there beside url").help("remove one of them"))
            }
            (None, None) => Err(section.wrong(format!("{} has no url", section.path())).help(format!(
                "say where the server is: url = {example:?}, or url_env = \"…\" to keep it out of this file"
            ))),
        }
    }

    /// The address itself.
    pub fn resolve(&self, feed: &FeedName) -> Result<String> {
        match self {
            Target::Here(url) => Ok(url.clone()),
            Target::Variable(name) => match std::env::var(name) {
                Ok(url) if !url.is_empty() => Ok(url),
                _ => Err(Error::usage(format!(
                    "feed.{feed}.handler.url_env names the variable {name}, which is not set"
                ))
                .help("set it to the address of the server")),
            },
        }
    }

    /// The variable that has the address, which may have a password in it.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Target::Here(_) => None,
            Target::Variable(name) => Some(name),
        }
    }
}
