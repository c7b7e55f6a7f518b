//! Who takes what.
use super::{Judged, LeaseView};
use crate::name::HostName;
/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a lease that can be had.
    Acquire(LeaseView),
    /// Ask the owner for a lease.
    Ask(LeaseView),
}
/// Decides.
pub fn balance(_judged: &Judged, _me: &HostName) -> Vec<Action> { Vec::new() }
