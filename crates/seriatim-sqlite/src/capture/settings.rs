//! What a capture was asked to be.

use std::path::PathBuf;
use std::time::Duration;

use super::names::Kind;
use super::sentences::Names;

/// How often an idle feed looks, unless told otherwise.
const EVERY: Duration = Duration::from_millis(50);

/// Into how many partitions a feed is sliced, unless told otherwise.
const PARTITIONS: u32 = 16;

/// What a capture was asked to be.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub path: PathBuf,
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
    /// How often an idle feed looks.
    pub every: Duration,
}

impl Settings {
    pub(super) fn new(path: PathBuf, kind: Kind, names: Names) -> Self {
        Settings {
            path,
            kind,
            names,
            key: None,
            partitions: PARTITIONS,
            deletes: false,
            filter: None,
            columns: None,
            every: EVERY,
        }
    }
}
