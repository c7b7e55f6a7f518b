//! The ledger in memory keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::{Ledger, MemoryLedger};
use seriatim_testkit::once_conformance::LedgerHarness;

struct Memory(MemoryLedger);

impl Memory {
    fn new() -> Self {
        Memory(MemoryLedger::new())
    }
}

#[async_trait]
impl LedgerHarness for Memory {
    async fn open(&self) -> Arc<dyn Ledger> {
        Arc::new(self.0.clone())
    }
}

seriatim_testkit::once_conformance!(Memory::new());
