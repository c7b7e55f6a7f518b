//! A hundred callers in several processes.

use std::sync::Arc;

use seriatim_dynamodb::{Address, DynamoDbLedger};
use seriatim_testkit::once_conformance::processes;

use crate::server::Server;

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
    if let Some(url) = processes::told() {
        let address = Address::parse(&url, |_| None).unwrap();
        return processes::call(Arc::new(DynamoDbLedger::connect(&address).await.unwrap())).await;
    }
    // Nobody has made the table yet: that is a race too.
    let server = Server::share();
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result";
    processes::one_of_a_hundred_runs(test, &server.address().to_string());
}
