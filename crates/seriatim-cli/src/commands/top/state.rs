//! What is shown: which screen, where the cursor is, what is asked. Without input or output.

use jiff::Timestamp;
use serde_json::Value;
use seriatim_dashboard::Action;

use super::picture::{Of, Picture};

/// One screen of `top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Screen {
    /// All feeds.
    Feeds,
    /// The partitions of a feed, or of a host.
    Partitions(Of),
    /// What is parked, of one feed or of all.
    Parked(Option<String>),
    /// All hosts.
    Hosts,
}

/// Something on a screen, by what it is and not by where it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Feed(String),
    Partition(String, u32),
    Parked(String, Value),
    Host(String),
}

impl Item {
    /// The feed that it belongs to.
    pub fn feed(&self) -> Option<&str> {
        match self {
            Item::Feed(feed) | Item::Partition(feed, _) | Item::Parked(feed, _) => Some(feed),
            Item::Host(_) => None,
        }
    }
}

/// What is asked, over the screen. It names what it is about, whatever the next picture shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Dialog {
    /// The keys.
    Help,
    /// Whether to do it.
    Sure(Action),
    /// Which host is to have a partition.
    Host { feed: String, partition: u32, hosts: Vec<String>, at: usize },
}

/// How a note is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
}

/// All that is shown.
#[derive(Debug)]
pub struct State {
    /// The last that was seen; `None` until the first look.
    pub picture: Option<Picture>,
    pub screen: Screen,
    /// What the cursor is on, and where that stood.
    pub chosen: Option<Item>,
    pub at: usize,
    pub dialog: Option<Dialog>,
    /// What came of the last action.
    pub note: Option<(Tone, String)>,
    /// Why the last look failed.
    pub trouble: Option<String>,
    pub now: Timestamp,
    pub read_only: bool,
}

impl State {
    /// Before the first look.
    pub fn new(read_only: bool) -> Self {
        State {
            picture: None,
            screen: Screen::Feeds,
            chosen: None,
            at: 0,
            dialog: None,
            note: None,
            trouble: None,
            now: Timestamp::UNIX_EPOCH,
            read_only,
        }
    }

    /// Takes a new picture. The cursor stays on what it was on.
    pub fn see(&mut self, picture: Picture) {
        self.picture = Some(picture);
        self.trouble = None;
        self.settle();
    }

    /// All that the screen lists.
    pub fn items(&self) -> Vec<Item> {
        let Some(picture) = &self.picture else { return Vec::new() };
        match &self.screen {
            Screen::Feeds => {
                picture.report.feeds.iter().map(|feed| Item::Feed(feed.name.to_string())).collect()
            }
            Screen::Partitions(of) => {
                let parts = picture.partitions(of).into_iter();
                parts.map(|(feed, part)| Item::Partition(feed.name.to_string(), part.partition.0)).collect()
            }
            Screen::Parked(feed) => {
                let parked = picture.parked(feed.as_deref()).into_iter();
                parked.map(|line| Item::Parked(line.feed.clone(), line.key.clone())).collect()
            }
            Screen::Hosts => {
                picture.report.hosts.iter().map(|host| Item::Host(host.name.to_string())).collect()
            }
        }
    }

    /// Goes to another screen, onto this item if it is there.
    pub fn go(&mut self, screen: Screen, onto: Option<Item>) {
        self.screen = screen;
        self.chosen = onto;
        self.at = 0;
        self.settle();
    }

    /// Puts the cursor onto what it was on, or, where that is gone, onto what now stands in its place.
    pub fn settle(&mut self) {
        let items = self.items();
        let found = self.chosen.as_ref().and_then(|chosen| items.iter().position(|item| item == chosen));
        self.place(found.unwrap_or(self.at), &items);
    }

    /// Puts the cursor there, or as near as can be.
    pub fn place(&mut self, at: usize, items: &[Item]) {
        self.at = at.min(items.len().saturating_sub(1));
        self.chosen = items.get(self.at).cloned();
    }
}
