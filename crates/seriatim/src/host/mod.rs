//! A host.
/// A host.
pub struct Host;
