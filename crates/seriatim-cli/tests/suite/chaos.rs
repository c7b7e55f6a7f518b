//! Short chaos runs, one for each kind of store: the program's processes are killed, stopped and cut off, its servers restarted,
//! and what was noted of it is judged by the simulator's checkers. Long ones: `cargo run -p seriatim-testkit --bin chaos`.

use std::path::Path;

use seriatim_testkit::chaos::plan::{Deed, Plan, Server, Site, Source};
use seriatim_testkit::chaos::run;

use crate::shop::PROGRAM;

/// Carries out the first plan with few steps in which a host is killed, another stands still for longer than its lease lasts, and this happens.
#[track_caller]
fn holds(site: Site, source: Source, also: fn(&Deed) -> bool) {
    let has = |plan: &Plan, wanted: fn(&Deed) -> bool| plan.steps.iter().any(|step| wanted(&step.deed));
    let is_meant = |plan: &Plan| {
        let is_short = plan.source == source && plan.steps.len() <= 6;
        let killed = has(plan, |deed| matches!(deed, Deed::Kill { .. }));
        let stood_still = has(plan, |deed| matches!(deed, Deed::Stand { hundredths: 105..150, .. }));
        is_short && killed && stood_still && has(plan, also)
    };
    let plan = (0..).map(|seed| Plan::of(seed, site)).find(is_meant).unwrap();
    let seed = plan.seed;
    let outcome = run(&plan, Path::new(PROGRAM)).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    println!("seed {seed}: {outcome}");
    assert!(outcome.violation.is_none(), "{}", outcome.told());
}

#[test]
fn on_sqlite_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(Site::Sqlite, Source::Sqlite, |deed| matches!(deed, Deed::Poison { .. }));
}

#[test]
fn on_postgres_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(Site::Postgres, Source::Postgres, |deed| matches!(deed, Deed::Restart(Server::Postgres)));
}

#[test]
fn by_the_servers_log_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(Site::Wal, Source::Postgres, |deed| matches!(deed, Deed::Walsender));
}

#[test]
fn with_the_store_in_redis_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(Site::Redis, Source::Postgres, |deed| matches!(deed, Deed::Restart(Server::Store)));
}

#[cfg(feature = "dynamodb")]
#[test]
fn with_the_store_in_dynamodb_a_fleet_under_chaos_keeps_its_guarantees() {
    holds(Site::DynamoDb, Source::Sqlite, |deed| matches!(deed, Deed::Restart(Server::Store)));
}
