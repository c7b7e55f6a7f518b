//! The ledger keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;
use seriatim_dynamodb::DynamoDbLedger;
use seriatim_testkit::once_conformance::LedgerHarness;

use crate::server::Server;

#[async_trait]
impl LedgerHarness for Server {
    async fn open(&self) -> Arc<dyn Ledger> {
        Arc::new(DynamoDbLedger::connect(&self.address()).await.unwrap())
    }

    fn sweeps_by_itself(&self) -> bool {
        true
    }
}

seriatim_testkit::once_conformance!(Server::share());
