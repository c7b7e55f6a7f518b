//! What a capture was asked to be.

use std::time::Duration;

use seriatim::backend::TableSettings;

use super::errors::Names;

/// How often an idle feed looks when nobody wakes it, unless told otherwise.
pub(crate) const EVERY: Duration = Duration::from_millis(250);

/// What a capture was asked to be.
pub(crate) type Settings = TableSettings<Names>;
