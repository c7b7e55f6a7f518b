//! One server for all tests that run at the same time; the last one stops it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use seriatim_dynamodb::Address;
use seriatim_testkit::servers::DynamoDb;

static RUNNING: Mutex<Weak<DynamoDb>> = Mutex::new(Weak::new());

/// A server, and a table name that no other test has.
pub struct Server {
    server: Arc<DynamoDb>,
    table: String,
}

impl Server {
    pub fn share() -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let server = running.upgrade().unwrap_or_else(|| {
            let server = Arc::new(DynamoDb::start().unwrap());
            *running = Arc::downgrade(&server);
            server
        });
        let table = seriatim::name::SessionId::random().to_string();
        Server { server, table }
    }

    pub fn address(&self) -> Address {
        let url = format!("dynamodb://{}?endpoint={}", self.table, self.server.endpoint());
        Address::parse(&url, |_| None).unwrap()
    }
}
