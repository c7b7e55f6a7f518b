//! A hundred callers in several processes.

use std::sync::Arc;

use seriatim_redis::{Prefix, Redis, RedisLedger};
use seriatim_testkit::once_conformance::processes;

use crate::support;

async fn ledger(place: &str) -> Arc<RedisLedger> {
    let (url, prefix) = place.split_once(' ').unwrap();
    Arc::new(RedisLedger::open(Redis::connect(url).await.unwrap(), Prefix::exactly(prefix)).unwrap())
}

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result() {
    if let Some(place) = processes::told() {
        return processes::call(ledger(&place).await).await;
    }
    let (server, prefix) = (support::single(), support::fresh_prefix());
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_and_all_get_its_result";
    processes::one_of_a_hundred_runs(test, &format!("{} {}", server.url(), prefix.as_str()));
}

#[tokio::test]
async fn of_a_hundred_callers_in_four_processes_one_runs_on_a_cluster_too() {
    if let Some(place) = processes::told() {
        return processes::call(ledger(&place).await).await;
    }
    let (cluster, prefix) = (support::cluster(), support::fresh_prefix());
    let test = "once_processes::of_a_hundred_callers_in_four_processes_one_runs_on_a_cluster_too";
    processes::one_of_a_hundred_runs(test, &format!("{} {}", cluster.url(), prefix.as_str()));
}
