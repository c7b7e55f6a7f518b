//! A gate's state in PostgreSQL keeps every promise.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::FeedName;
use seriatim::order::GateState;
use seriatim_postgres::{Database, PostgresGateState};
use seriatim_testkit::gate::GateHarness;

use crate::support::Place;

#[async_trait]
impl GateHarness for Place {
    async fn open(&self) -> Arc<dyn GateState> {
        let (database, gate) = (Database::connect(self.url()).unwrap(), FeedName::new("works").unwrap());
        Arc::new(PostgresGateState::open(database, &gate).await.unwrap())
    }
}

seriatim_testkit::gate_conformance!(Place::new());
