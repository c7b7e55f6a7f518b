//! When a checkpoint is written.

use std::time::Duration;

/// When a partition's checkpoint is written, with a handler that is not transactional: what a crash makes it see again.
///
/// Whatever the policy, what is done is checkpointed when the partition is closed while the lease is held: at shutdown, at a
/// hand-over, and when a host that handles what is there has handled it. And what has to be parked is parked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPolicy {
    /// After each batch.
    Batch,
    /// When so many changes are done since the last one, or more.
    Changes(u64),
    /// When this long has passed since the last one.
    Time(Duration),
    /// When the handler says so ([`Context::checkpoint`](crate::Context::checkpoint)), and up to what it has been given then. A
    /// handler that keeps changes in memory for a while loses none of them this way. It is called once at a time for each
    /// partition, whatever `concurrency` says, and a partition stops reading when too much waits for its word.
    Manual,
}

impl Default for CheckpointPolicy {
    fn default() -> Self {
        CheckpointPolicy::Time(Duration::from_millis(100))
    }
}
