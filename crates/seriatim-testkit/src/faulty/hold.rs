//! A call that waits until the test lets it go.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A call held at the store's door.
#[derive(Clone, Debug)]
pub struct Hold {
    arrived: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

impl Default for Hold {
    fn default() -> Self {
        Hold { arrived: Arc::new(Semaphore::new(0)), released: Arc::new(Semaphore::new(0)) }
    }
}

impl Hold {
    /// Returns when the call is there and waits.
    pub async fn reached(&self) {
        pass(&self.arrived).await;
    }

    /// Lets the call go, or lets it pass if it has not come yet.
    pub fn release(&self) {
        self.released.add_permits(1);
    }

    pub(super) async fn wait(&self) {
        self.arrived.add_permits(1);
        pass(&self.released).await;
    }
}

async fn pass(gate: &Semaphore) {
    gate.acquire().await.expect("no gate is ever closed").forget();
}
