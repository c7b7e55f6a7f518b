//! A hundred callers in several processes.

use std::sync::Arc;

use seriatim_postgres::PostgresLedger;
use seriatim_testkit::once_conformance::processes;

use crate::support::Place;

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
    if let Some(url) = processes::told() {
        return processes::call(Arc::new(PostgresLedger::connect(&url).await.unwrap())).await;
    }
    // Nobody has made the tables yet: that is a race too.
    let place = Place::new();
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result";
    processes::one_of_a_hundred_runs(test, place.url());
}
