//! A gate's state in memory keeps every promise.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::order::{GateState, MemoryGateState};
use seriatim_testkit::gate::GateHarness;

struct InMemory(MemoryGateState);

#[async_trait]
impl GateHarness for InMemory {
    async fn open(&self) -> Arc<dyn GateState> {
        Arc::new(self.0.clone())
    }
}

seriatim_testkit::gate_conformance!(InMemory(MemoryGateState::default()));
