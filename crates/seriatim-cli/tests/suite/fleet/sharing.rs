//! Hosts come, go and die while changes are written.

use std::time::Duration;

use super::site::{Site, USUAL, Writer, until};

const HANDLER: &str = "stdout = true\nbatch = 10";

/// Three share, a fourth joins, it leaves, one of the three dies, and the rest leave.
fn share_and_lose_nothing(site: &Site) {
    let all = ["a", "b", "c", "d"];
    let [a, b, mut c] = ["a", "b", "c"].map(|name| site.host(name));
    site.until_shared(&[("a", 4), ("b", 4), ("c", 4)]);
    let writer = Writer::start(site);
    writer.goes_on_for(50);

    let d = site.host("d");
    site.until_shared(&[("a", 3), ("b", 3), ("c", 3), ("d", 3)]);
    writer.goes_on_for(50);
    site.assert_nothing_twice(&all);
    let took = site.hand_overs("d");
    println!("hand-overs took {took:?}");
    assert!(took.len() >= 3, "{took:?}");
    // In quiet times it is a fraction of this; a test machine is not quiet.
    assert!(took[0] < Duration::from_secs(3), "{took:?}");

    let took = d.stop();
    let owners = site.owners();
    assert!(!owners.contains_key("d"), "its leases are free at once: {owners:?}");
    println!("told to stop, it ended after {took:?}");
    site.until_shared(&[("a", 4), ("b", 4), ("c", 4)]);
    writer.goes_on_for(50);
    site.assert_nothing_twice(&all);

    c.kill();
    let took = site.until_shared(&[("a", 6), ("b", 6)]);
    println!("killed with -9, it was replaced after {took:?}");
    let committed = writer.stop() as usize;
    until("all is handled", || site.handled(&all).len() >= committed);
    assert_eq!(site.handled(&all).len(), committed);
    let before: usize = site.handled(&all).values().sum();
    a.stop();
    b.stop();
    let next = site.shop.run("run --once --host e").expect(0, &[]);
    assert_eq!(next.stdout, "", "the next start redelivers nothing");
    assert_eq!(site.handled(&all).values().sum::<usize>(), before);
}

#[test]
fn on_sqlite_hosts_that_come_and_go_share_the_work_and_lose_nothing() {
    share_and_lose_nothing(&Site::sqlite(HANDLER, USUAL));
}

#[test]
fn on_postgres_hosts_that_come_and_go_share_the_work_and_lose_nothing() {
    share_and_lose_nothing(&Site::postgres(HANDLER, USUAL));
}

#[test]
fn on_postgres_a_living_hosts_name_is_refused_and_another_number_of_partitions_is_taken_over() {
    let site = Site::postgres(HANDLER, USUAL);
    let mut first = site.host("only");
    site.until_shared(&[("only", 12)]);
    site.shop.run("run --once --host only").expect(1, &["a host named only is already running", "--host"]);
    first.kill();
    site.shop.run("run --once --host only").expect(0, &["goes on from its checkpoints", "start = now"]);
    site.shop.reconfigure("partitions = 12", "partitions = 24");
    site.shop.run("run --once").expect(0, &["has 12 partitions; this host changes that to 24"]);
}
