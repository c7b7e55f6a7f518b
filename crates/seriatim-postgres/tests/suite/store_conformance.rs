//! The store keeps every promise of the contract.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::Store;
use seriatim_testkit::conformance::Harness;

use crate::support::Place;

#[async_trait]
impl Harness for Place {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store().await)
    }

    fn knows_the_dead(&self) -> bool {
        true
    }
}

seriatim_testkit::conformance!(Place::new());
