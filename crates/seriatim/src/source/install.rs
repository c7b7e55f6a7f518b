//! Captures that put something into their source: triggers, tables, functions.

use async_trait::async_trait;

use serde::Serialize;

use super::{Blocker, Consumer, Feed, SourceError, Start};
use crate::change::Position;

/// Whether a capture is in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// What it needs is there.
    Installed,
    /// The table can be watched; opening the feed will install what it needs.
    NotYet,
}

/// The columns of what is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// All of them, in order.
    pub columns: Vec<String>,
    /// Those that tell objects apart.
    pub key: Vec<String>,
}

/// A place in a server's log that is kept for a feed, as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// How many bytes of the log the server keeps for it; `None` when that is unknown.
    pub retained_bytes: Option<u64>,
    /// The place up to which everything is kept elsewhere; `None` when the slot is gone.
    pub confirmed: Option<String>,
    /// Somebody reads it right now.
    pub active: bool,
}

/// A feed that can be looked at, installed and followed apart from any host: what an operator's tools need of it.
#[async_trait]
pub trait Install: Feed {
    /// Whether the table can be watched, and is. Writes nothing.
    async fn check(&self) -> Result<Installed, SourceError>;

    /// The SQL that opening the feed would execute, as a script for the database's own shell. Writes nothing.
    async fn install_sql(&self) -> Result<String, SourceError>;

    /// Opens the feed as [`Feed::open`] does, and also puts right what that refuses to go on with: triggers that are gone,
    /// or that something was made behind.
    ///
    /// Changes made in between may not be recorded, and only reading all rows again makes up for it. After triggers were
    /// gone, positions from before are refused.
    async fn install(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError>;

    /// The position after the last change, for whoever only wants to look on. An error when nothing is installed.
    async fn newest(&self) -> Result<Position, SourceError>;

    /// The oldest position that is still retained. An error when nothing is installed.
    async fn oldest(&self) -> Result<Position, SourceError>;

    /// What works, but not well, and what would make it better, such as an index. Writes nothing.
    async fn advice(&self) -> Result<Vec<Blocker>, SourceError> {
        Ok(Vec::new())
    }

    /// The slot of the server's log that it is read from, where there is one. Writes nothing.
    async fn slot(&self) -> Result<Option<Slot>, SourceError> {
        Ok(None)
    }

    /// The columns of what is watched. Writes nothing.
    async fn shape(&self) -> Result<Shape, SourceError>;
}
