//! The process that drives PostgreSQL's sequencer dies: another one takes over.

use std::time::Duration;

use super::site::{Site, USUAL, until};

const HANDLER: &str = "sql = \"insert into handled (change) values (:id)\"";

/// Another host takes over after two seconds of silence; a test machine is slow. The leases of the dead host expire much later.
const TAKEN_OVER: Duration = Duration::from_secs(12);

/// Whether a host of this process id drives the sequencer.
fn holds(site: &Site, process: u32) -> bool {
    site.number(&format!("select count(*) from seriatim.sequencer where holder like '{process}-%'")) == 1
}

#[test]
fn when_the_host_that_drives_the_sequencer_is_killed_another_one_handles_the_next_insert() {
    let site = Site::postgres(HANDLER, USUAL);
    let mut hosts = ["a", "b", "c"].map(|name| site.host(name));
    site.until_shared(&[("a", 4), ("b", 4), ("c", 4)]);
    let handled = || site.number("select count(*) from handled");
    site.sql("insert into orders select g, 0 from generate_series(1000, 1099) g");
    until("the fleet handles what is written", || handled() == 100);
    let mut driver = None;
    until("one of them drives the sequencer", || {
        driver = hosts.iter().position(|host| holds(&site, host.id()));
        driver.is_some()
    });
    let driver = driver.unwrap();
    hosts[driver].kill();
    let began = seriatim::clock::now();
    site.sql("insert into orders select g, 0 from generate_series(2000, 2099) g");
    until("another host handles an insert", || handled() > 100);
    let handles = began.elapsed();
    let living = |place: usize| place != driver && holds(&site, hosts[place].id());
    until("another host drives the sequencer", || (0..hosts.len()).any(living));
    let drives = began.elapsed();
    println!(
        "after kill -9: an insert was handled after {handles:?}, another host drove the sequencer after {drives:?}"
    );
    assert!(handles.max(drives) < TAKEN_OVER, "{handles:?}, {drives:?}");
    until("all inserts are handled", || handled() == 200);
}
