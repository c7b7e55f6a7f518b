//! A hundred callers of one signal in four processes, for ledgers that processes can share.
//!
//! ```text
//! #[tokio::test]
//! async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
//!     if let Some(place) = processes::told() {
//!         return processes::call(open(&place).await).await;
//!     }
//!     processes::one_of_a_hundred_runs("module::of_a_hundred_callers_…", &place);
//! }
//! ```

use std::convert::Infallible;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use seriatim::once::{Ledger, Once, Outcome};
use tokio::task::JoinSet;

use super::stage::LONG;

const PLACE: &str = "SERIATIM_TEST_LEDGER";
const PROCESSES: usize = 4;
const CALLERS: usize = 25;

/// Where the ledger is, in a process that was started to call.
pub fn told() -> Option<String> {
    std::env::var(PLACE).ok()
}

/// What each process does: it protects the same signal many times at once, and says what became of each.
pub async fn call(ledger: Arc<dyn Ledger>) {
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let once = Once::new(ledger.clone(), "mailer").max_processing_time(LONG).max_wait(LONG);
        let result = format!("{} {number}", std::process::id());
        callers.spawn(async move { once.protect("1", async || Ok::<_, Infallible>(result)).await.unwrap() });
    }
    for outcome in callers.join_all().await {
        match outcome {
            Outcome::Ran(result) => println!("\nran|{result}"),
            Outcome::Duplicate(result) => println!("\nduplicate|{result}"),
        }
    }
}

/// Starts this test, by its full name, in four more processes that are told the place.
pub fn one_of_a_hundred_runs(test: &str, place: &str) {
    let start = |_| -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(PLACE, place).stdout(Stdio::piped());
        child.spawn().unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let (mut ran, mut duplicates, mut results) = (0, 0, Vec::new());
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let Some((how, result)) = line.split_once('|') else { continue };
            ran += usize::from(how == "ran");
            duplicates += usize::from(how == "duplicate");
            results.push(result.to_owned());
        }
    }
    assert_eq!((ran, duplicates), (1, PROCESSES * CALLERS - 1));
    results.dedup();
    assert_eq!(results.len(), 1, "all get the same result: {results:?}");
}
