//! Short chaos runs, one for each kind of store: the program's processes are killed, stopped and cut off, its servers restarted,
//! and what was noted of it is judged by the simulator's checkers. Long ones: `cargo run -p seriatim-testkit --bin chaos`.

use std::path::Path;

use seriatim_testkit::chaos::plan::{Plan, Site};
use seriatim_testkit::chaos::run;

use crate::shop::PROGRAM;

#[track_caller]
fn holds(seed: u64, site: Site) {
    let plan = Plan::of(seed, site);
    let outcome = run(&plan, Path::new(PROGRAM)).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    println!("seed {seed}: {outcome}");
    assert!(outcome.violation.is_none(), "{}", outcome.told());
}

#[test]
fn on_sqlite_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(1, Site::Sqlite);
}

#[test]
fn on_postgres_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(3, Site::Postgres);
}

#[test]
fn with_the_store_in_redis_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(2, Site::Redis);
}

#[cfg(feature = "dynamodb")]
#[test]
fn with_the_store_in_dynamodb_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(2, Site::DynamoDb);
}
