//! What a window was asked to be.

use std::time::Duration;

use seriatim::backend::rows;
pub(super) use seriatim::backend::rows::From;
pub use seriatim::backend::rows::Horizon;

use super::super::errors::Names;

/// Rows that do not rest are not looked for more often than this, however short the buffer is: each look reads the keys of all
/// rows that are too young.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// What a window was asked to be.
pub(super) type Settings = rows::Settings<Names>;

/// How long rows are given to rest before they are looked for among those that do not.
pub(super) fn patience(settings: &Settings, tick: Duration) -> Duration {
    settings.rules.buffer.saturating_mul(2).max(tick).max(LEAST_PATIENCE)
}
