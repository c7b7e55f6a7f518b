//! What a capture was asked to be.

use std::time::Duration;

use super::names::Kind;
use super::sentences::Names;

/// How often an idle feed looks when nobody wakes it.
const EVERY: Duration = Duration::from_millis(250);

/// Into how many partitions a feed is sliced, unless told otherwise.
const PARTITIONS: u32 = 16;

/// What a capture was asked to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub kind: Kind,
    pub names: Names,
    /// The key's columns; the primary key when not given.
    pub key: Option<Vec<String>>,
    pub partitions: u32,
    /// Log: deliver deletes too.
    pub deletes: bool,
    /// Which rows; all when not given.
    pub filter: Option<String>,
    /// Which columns beside the key's; all when not given.
    pub columns: Option<Vec<String>>,
    /// It is meant to begin with the rows that exist.
    pub with_existing: bool,
    /// How often an idle feed looks when nobody wakes it.
    pub every: Duration,
}

impl Settings {
    pub(crate) fn new(kind: Kind, names: Names) -> Self {
        Settings {
            kind,
            names,
            key: None,
            partitions: PARTITIONS,
            deletes: false,
            filter: None,
            columns: None,
            with_existing: false,
            every: EVERY,
        }
    }
}
