//! The ledger keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;
use seriatim_testkit::once_conformance::LedgerHarness;

use crate::support::Place;

#[async_trait]
impl LedgerHarness for Place {
    async fn open(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger().await)
    }
}

seriatim_testkit::once_conformance!(Place::new());
