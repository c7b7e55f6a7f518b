//! The log: the latest state of each key, and where in the order it last changed.

mod aside;
pub(super) mod triggers;
pub(super) mod seed;
pub(super) mod read;
