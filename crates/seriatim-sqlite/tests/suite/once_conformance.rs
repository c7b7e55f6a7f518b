//! The ledger keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;
use seriatim_sqlite::SqliteLedger;
use seriatim_testkit::once_conformance::LedgerHarness;

use crate::support::File;

#[async_trait]
impl LedgerHarness for File {
    async fn open(&self) -> Arc<dyn Ledger> {
        Arc::new(SqliteLedger::open(&self.path()).await.unwrap())
    }
}

seriatim_testkit::once_conformance!(File::new());
