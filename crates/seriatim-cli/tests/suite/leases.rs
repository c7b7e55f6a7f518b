//! `seriatim lease`, with real hosts.

use std::io::{BufRead, BufReader};
use std::process::Child;

use serde_json::Value;

use crate::shop::Shop;

/// A host; killed when the test ends.
struct Running(Child);

impl Running {
    fn start(shop: &Shop, name: &str, says: &str) -> Self {
        let mut host = shop.start(&format!("run --host {name}"));
        let mut logs = BufReader::new(host.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(logs.any(|line| line.contains(says)), "{says}");
        // Somebody must go on reading, or the host waits for room in the pipe.
        std::thread::spawn(move || logs.for_each(drop));
        Running(host)
    }

    fn kill(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn leases(shop: &Shop) -> Vec<Value> {
    serde_json::from_str(&shop.run("lease list --json").expect(0, &[]).stdout).unwrap()
}

fn owners(shop: &Shop) -> Vec<String> {
    leases(shop).iter().map(|lease| lease["owner"].as_str().unwrap_or("nobody").to_owned()).collect()
}

fn until_shared(shop: &Shop) {
    let began = seriatim::clock::now();
    while owners(shop).iter().filter(|owner| *owner == "anna").count() != 2 {
        assert!(began.elapsed().as_secs() < 30, "the leases are never shared again");
    }
}

#[test]
fn before_the_first_run_there_are_no_leases() {
    let shop = Shop::open();
    shop.run("lease list").expect(0, &["there are no leases yet"]);
    assert_eq!(leases(&shop), Vec::<Value>::new());
    shop.run("lease move totals 1 anna").expect(1, &["feed totals has never run"]);
    shop.run("lease release totls 1").expect(2, &["did you mean \"totals\"?"]);
}

#[test]
fn a_partition_is_moved_to_the_host_that_is_named_and_stays_there() {
    let shop = Shop::open();
    let _anna = Running::start(&shop, "anna", "owns 4 of 4 partitions");
    let _bert = Running::start(&shop, "bert", "owns 2 of 4 partitions");
    shop.run("lease move totals 0 carl").expect(1, &["no host \"carl\" runs feed totals"]);
    shop.run("lease move totals 9 bert").expect(2, &["its partitions are 0 to 3"]);
    let before = owners(&shop);
    let annas = before.iter().position(|owner| owner == "anna").unwrap();
    shop.run(&format!("lease move totals {annas} bert")).expect(0, &["bert owns it now"]);
    // Bert had its share, so it gives one back for it, and both are content.
    until_shared(&shop);
    assert_eq!(owners(&shop)[annas], "bert");
    shop.run(&format!("lease move totals {annas} bert")).expect(0, &["bert owns it already"]);
    let list = shop.run("lease list").expect(0, &["partition", "epoch", "wanted by", "anna", "bert"]);
    assert_eq!(list.stdout.lines().count(), 5);
}

#[test]
fn a_lease_is_taken_from_a_living_host_only_by_force() {
    let shop = Shop::open();
    let mut anna = Running::start(&shop, "anna", "owns 4 of 4 partitions");
    shop.run("lease release totals 1").expect(1, &["cannot be released", "owned by anna", "--force"]);
    let epoch = leases(&shop)[1]["epoch"].as_u64().unwrap();
    shop.run("lease release totals 1 --force").expect(0, &["partition totals/1: free"]);
    assert!(
        leases(&shop)[1]["epoch"].as_u64().unwrap() > epoch,
        "its owner of before can write nothing under it"
    );
    anna.kill();
    shop.run("lease release totals 2").expect(0, &["partition totals/2: free"]);
}

#[test]
fn a_lease_shows_when_its_owner_was_last_heard_of_and_the_expiry_that_it_is_judged_by() {
    let shop = Shop::open();
    shop.reconfigure("[source.shop]", "[lease]\nrenew = \"200ms\"\nexpire = \"7s\"\n[source.shop]");
    let mut host = Running::start(&shop, "anna", "owns 4 of 4 partitions");
    let renewed = |lease: &Value| lease["renewed_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let first = leases(&shop);
    for lease in &first {
        assert_eq!((lease["expire"].as_f64(), &lease["parents"]), (Some(7.0), &Value::Array(vec![])));
        let age = seriatim::clock::wall().duration_since(renewed(lease));
        assert!(age.as_secs().abs() < 60, "{lease}");
    }
    let began = seriatim::clock::now();
    while renewed(&leases(&shop)[0]) <= renewed(&first[0]) {
        assert!(began.elapsed().as_secs() < 30, "it is never renewed");
    }
    host.kill();
    assert_eq!((&leases(&shop)[0]["owner"], &leases(&shop)[0]["renewed_at"]), (&Value::Null, &Value::Null));
}
