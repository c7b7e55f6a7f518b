//! What a window was asked to be.

use std::time::Duration;

use seriatim::backend::rows;
pub(super) use seriatim::backend::rows::From;
pub use seriatim::backend::rows::Horizon;

use super::super::errors::Names;
use super::moment::resolution;
use super::place::PositionCodec;

/// What a window was asked to be. Without a unit, its column has texts.
pub(super) type Settings = rows::Settings<Names>;

/// How positions write what orders the rows.
pub(super) fn spelling(settings: &Settings) -> PositionCodec {
    PositionCodec(settings.unit)
}

/// How long rows are given to rest before they are looked for among those that do not.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.rules.buffer.saturating_mul(2).max(resolution(settings.unit))
}
