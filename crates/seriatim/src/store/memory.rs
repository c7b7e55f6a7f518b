//! Memory.
/// Memory.
pub struct MemoryStore;
