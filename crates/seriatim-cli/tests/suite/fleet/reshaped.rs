//! The number of a feed's partitions changes while changes are written, and hosts start, follow and die with -9.

use serde_json::Value;

use super::site::{Host, SHORT, Site, Writer, until};

/// Effect and checkpoint are one transaction: each value of each object is noted once, in order, or something is wrong.
const HANDLER: &str = "sql = \"insert into seen (id, amount) values (:key_id, :new_amount)\"\nbatch = 10";

/// So many rounds, for a longer look: each is another pair of changes with other deaths.
const ROUNDS: &str = "SERIATIM_PARTITIONS_ROUNDS";

fn site(open: fn(&str, &str) -> Site, serial: &str) -> Site {
    let site = open(HANDLER, SHORT);
    site.sql(&format!("create table seen (at {serial}, id integer, amount integer)"));
    site
}

/// The partitions and whether one of them waits for others.
fn partitions(site: &Site) -> (Vec<u64>, bool) {
    let list = site.shop.run("lease list --json").expect(0, &[]).stdout;
    let leases: Vec<Value> = serde_json::from_str(&list).unwrap();
    let waits = leases.iter().any(|lease| !lease["parents"].as_array().unwrap().is_empty());
    (leases.iter().map(|lease| lease["partition"].as_u64().unwrap()).collect(), waits)
}

/// Waits until there are so many partitions and no others.
#[track_caller]
fn until_partitions(site: &Site, count: usize) {
    until("the partitions have changed", || {
        let (partitions, waits) = partitions(site);
        partitions.len() == count && !waits
    });
}

/// How many values are not where they should be: each object's values are 1, 2, 3, …
fn out_of_line(site: &Site) -> i64 {
    site.number(
        "select count(*) from (select amount, row_number() over (partition by id order by at) as place from seen) s \
         where amount <> place",
    )
}

/// Two hosts run. Another one brings the next number with it, and somebody dies on the way.
fn change(
    site: &Site,
    hosts: &mut Vec<Host>,
    (from, to): (u32, u32),
    name: &str,
    random: &mut fastrand::Rng,
) {
    site.shop.reconfigure(&format!("partitions = {from}"), &format!("partitions = {to}"));
    hosts.push(site.host(name));
    std::thread::sleep(std::time::Duration::from_millis(random.u64(..800)));
    // Anybody: also the one that brought the change.
    hosts.swap_remove(random.usize(..hosts.len())).kill();
    hosts.push(site.host(&format!("{name}-next")));
}

fn partitions_come_and_go(site: &Site) {
    let rounds: u64 = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    site.shop.reconfigure("partitions = 12", "partitions = 4");
    let mut hosts = vec![site.host("a"), site.host("b")];
    until_partitions(site, 4);
    let writer = Writer::start(site);
    writer.goes_on_for(30);
    let mut now = 4;
    for round in 0..rounds {
        let mut random = fastrand::Rng::with_seed(round);
        for next in [16, 3] {
            change(site, &mut hosts, (now, next), &format!("r{round}-{next}"), &mut random);
            writer.goes_on_for(30);
            until_partitions(site, next as usize);
            writer.goes_on_for(30);
            assert_eq!(out_of_line(site), 0, "round {round}, to {next}");
            now = next;
        }
    }
    let committed = writer.stop() as i64;
    until("all is handled", || site.number("select count(*) from seen") >= committed);
    assert_eq!(site.number("select count(*) from seen"), committed);
    assert_eq!(out_of_line(site), 0);
    hosts.into_iter().for_each(|host| _ = host.stop());
    site.shop.run("run --once --host last").expect(0, &[]);
    assert_eq!(site.number("select count(*) from seen"), committed, "the next start handles nothing again");
    let status = site.shop.run("status --json").expect(0, &[]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    let partitions = status["feeds"][0]["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 3, "{status}");
    assert!(partitions.iter().all(|partition| partition["lag"]["changes"] == 0), "{status}");
}

#[test]
fn on_sqlite_partitions_come_and_go_and_each_value_is_handled_once_and_in_order() {
    partitions_come_and_go(&site(Site::sqlite, "integer primary key"));
}

#[test]
fn on_postgres_partitions_come_and_go_and_each_value_is_handled_once_and_in_order() {
    partitions_come_and_go(&site(Site::postgres, "bigserial primary key"));
}
