//! A hundred callers in several processes.

use std::path::Path;
use std::sync::Arc;

use seriatim_sqlite::SqliteLedger;
use seriatim_testkit::once_conformance::processes;

use crate::support::File;

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
    if let Some(path) = processes::told() {
        return processes::call(Arc::new(SqliteLedger::open(Path::new(&path)).await.unwrap())).await;
    }
    // Nobody has made the file yet: that is a race too.
    let file = File::new();
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result";
    processes::one_of_a_hundred_runs(test, file.path().to_str().unwrap());
}
