//! The store in memory keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::{MemoryStore, Store};
use seriatim_testkit::conformance::Harness;

/// One store in memory; its handles are the same store.
struct Memory(Arc<MemoryStore>);

impl Memory {
    fn new() -> Self {
        Memory(Arc::new(MemoryStore::new()))
    }
}

#[async_trait]
impl Harness for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn knows_the_dead(&self) -> bool {
        false
    }
}

seriatim_testkit::conformance!(Memory::new());
