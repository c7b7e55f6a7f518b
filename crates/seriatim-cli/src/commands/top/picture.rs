//! What was seen at one moment.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use seriatim_dashboard::{Action, Refusal};

use crate::commands::status::report::{FeedStatus, PartitionStatus, Report};

/// Feeds and hosts as `status` shows them, and what is parked.
#[derive(Debug, Default)]
pub struct Picture {
    pub report: Report,
    pub parked: Vec<ParkedLine>,
    pub at: Timestamp,
}

/// One parked object, as `parked list --json` shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct ParkedLine {
    pub feed: String,
    pub partition: u32,
    pub key: Value,
    pub waiting: u64,
    pub attempts: u32,
    pub error: String,
    pub since: Timestamp,
    pub next_try: Option<Timestamp>,
}

impl Picture {
    /// A picture of what was seen at a moment.
    pub fn new(report: Report, parked: Vec<Value>, at: Timestamp) -> Self {
        let parked = parked.into_iter().filter_map(|line| serde_json::from_value(line).ok());
        Picture { report, parked: parked.collect(), at }
    }

    /// The feed of this name.
    pub fn feed(&self, name: &str) -> Option<&FeedStatus> {
        self.report.feeds.iter().find(|feed| feed.name.as_str() == name)
    }

    /// The partitions of a feed, or those that a host owns.
    pub fn partitions(&self, of: &Of) -> Vec<(&FeedStatus, &PartitionStatus)> {
        let all =
            self.report.feeds.iter().flat_map(|feed| feed.partitions.iter().map(move |part| (feed, part)));
        all.filter(|(feed, partition)| match of {
            Of::Feed(name) => feed.name.as_str() == name,
            Of::Host(name) => partition.owner.as_ref().is_some_and(|owner| owner.as_str() == name),
        })
        .collect()
    }

    /// What is parked of a feed, or of all.
    pub fn parked(&self, feed: Option<&str>) -> Vec<&ParkedLine> {
        self.parked.iter().filter(|line| feed.is_none_or(|feed| line.feed == feed)).collect()
    }

    /// How many objects are parked, also where only some of them are listed.
    pub fn parked_count(&self, feed: Option<&str>) -> usize {
        let feeds = self.report.feeds.iter();
        feeds.filter(|one| feed.is_none_or(|feed| one.name.as_str() == feed)).map(|one| one.parked).sum()
    }
}

/// Whose partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    Feed(String),
    Host(String),
}

/// A refusal, in words.
pub fn told(refusal: &Refusal) -> String {
    match &refusal.remedy {
        Some(remedy) => format!("{}; {remedy}", refusal.sentence),
        None => refusal.sentence.clone(),
    }
}

/// An action that was done, in words.
pub fn done(action: &Action) -> String {
    match action {
        Action::Pause { feed } => format!("feed {feed}: paused; its hosts stop within a second"),
        Action::Resume { feed } => format!("feed {feed}: resumed; its hosts go on within a second"),
        Action::Retry { feed, key: Some(key) } => {
            format!("feed {feed}: {key} is to be tried again by its host")
        }
        Action::Retry { feed, key: None } => format!("feed {feed}: all that is parked is to be tried again"),
        Action::Move { feed, partition, host } => {
            format!("feed {feed}: {host} was asked to take partition {partition}")
        }
        other => format!("feed {}: {} is done", other.feed(), other.name()),
    }
}

/// An action that somebody is asked about, in words.
pub fn question(action: &Action) -> String {
    match action {
        Action::Pause { feed } => format!("Pause feed {feed} on all hosts?"),
        Action::Resume { feed } => format!("Resume feed {feed}?"),
        Action::Retry { feed, key: Some(key) } => format!("Try {key} of feed {feed} again?"),
        Action::Retry { feed, key: None } => format!("Try all parked objects of feed {feed} again?"),
        other => format!("Feed {}: {}?", other.feed(), other.name()),
    }
}
