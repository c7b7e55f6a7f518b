//! The journal: every change of a table, with the row before and after.

pub(super) mod flight;
mod lean;
pub(super) mod triggers;
pub(super) mod live;
pub(super) mod backfill;
