//! A gate's state in a file keeps every promise.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::order::GateState;
use seriatim_sqlite::SqliteGateState;
use seriatim_testkit::gate::GateHarness;

use crate::support::File;

#[async_trait]
impl GateHarness for File {
    async fn open(&self) -> Arc<dyn GateState> {
        Arc::new(SqliteGateState::open(&self.path(), &FeedName::new("works").unwrap()).await.unwrap())
    }
}

seriatim_testkit::gate_conformance!(File::new());
