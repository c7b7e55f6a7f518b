//! A hundred callers in several processes.

use std::convert::Infallible;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use seriatim::once::{Once, Outcome};
use seriatim_postgres::PostgresLedger;
use tokio::task::JoinSet;

use crate::support::Place;

const URL: &str = "SERIATIM_TEST_ONCE_URL";
const PROCESSES: usize = 4;
const CALLERS: usize = 25;

/// What each process does: it protects the same signal many times at once, and says what became of each.
async fn call(url: String) {
    let ledger = Arc::new(PostgresLedger::connect(&url).await.unwrap());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let once = Once::new(ledger.clone(), "mailer").max_processing_time(Duration::from_secs(120));
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

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
    if let Ok(url) = std::env::var(URL) {
        return call(url).await;
    }
    // Nobody has made the tables yet: that is a race too.
    let place = Place::new();
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result";
    let start = |_| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(URL, place.url()).stdout(Stdio::piped());
        child.spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(start).collect();
    let (mut ran, mut results) = (0, Vec::new());
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let Some((how, result)) = line.split_once('|') else { continue };
            ran += usize::from(how == "ran");
            results.push(result.to_owned());
        }
    }
    assert_eq!((ran, results.len()), (1, PROCESSES * CALLERS));
    results.dedup();
    assert_eq!(results.len(), 1);
}
