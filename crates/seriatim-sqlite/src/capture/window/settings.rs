//! What a window was asked to be.

use std::time::Duration;

use seriatim::backend::rows;
pub(super) use seriatim::backend::rows::From;
pub use seriatim::backend::rows::Horizon;
use seriatim::name::FeedName;

use super::super::sentences::Names;
use super::moment::resolution;
use super::place::Spelling;

/// How often an idle feed looks, unless told otherwise.
pub(super) const EVERY: Duration = Duration::from_millis(50);

/// What a window was asked to be. Without a unit, its column has texts.
pub(super) type Settings = rows::Settings<Names>;

impl rows::Named for Names {
    fn feed(&self) -> &FeedName {
        &self.feed
    }

    fn table(&self) -> &str {
        &self.table
    }

    fn home(&self) -> &str {
        &self.file
    }
}

/// How positions write what orders the rows.
pub(super) fn spelling(settings: &Settings) -> Spelling {
    Spelling(settings.unit)
}

/// How long rows are given to rest before they are looked for among those that do not.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.rules.buffer.saturating_mul(2).max(resolution(settings.unit))
}
