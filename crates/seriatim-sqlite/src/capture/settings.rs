//! What a capture was asked to be.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use seriatim::backend::{Kind, TableSettings};

use super::errors::Names;

/// How often an idle feed looks, unless told otherwise.
pub(super) const EVERY: Duration = Duration::from_millis(50);

/// What a capture was asked to be, and where its file is.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub path: PathBuf,
    asked: TableSettings<Names>,
}

impl Settings {
    pub(super) fn new(path: PathBuf, kind: Kind, names: Names) -> Self {
        Settings { path, asked: TableSettings::new(kind, names, EVERY) }
    }
}

impl Deref for Settings {
    type Target = TableSettings<Names>;

    fn deref(&self) -> &Self::Target {
        &self.asked
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.asked
    }
}
