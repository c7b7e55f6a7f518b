//! The queue in memory keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::queue::{MemoryQueue, Queue};
use seriatim_testkit::queue::QueueHarness;

/// One queue in memory; its handles are the same queue.
struct Memory(MemoryQueue);

#[async_trait]
impl QueueHarness for Memory {
    async fn open(&self) -> Arc<dyn Queue> {
        Arc::new(self.0.clone())
    }

    async fn with_limit(&self, limit: u64) -> Arc<dyn Queue> {
        Arc::new(self.0.clone().limited_to(limit))
    }
}

seriatim_testkit::queue_conformance!(Memory(MemoryQueue::new()));
