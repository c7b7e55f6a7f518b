//! A host that is stopped for longer than its lease, in the middle of an effect, and comes back.

use rustix::process::Signal;

use super::site::{SHORT, Site, Writer, until};

/// Takes its time, so that a host is nearly always in the middle of a transaction.
const SLOW: &str =
    "sql = \"insert into handled (change, waited) select :id, pg_sleep(0.005)::text\"\nbatch = 10";

/// Transactions that a host of this name has open and does nothing in.
const OPEN: &str = "select count(*) from pg_stat_activity
    where application_name = 'zombie' and state = 'idle in transaction' and datname = current_database()";

#[test]
fn on_postgres_the_transaction_of_a_zombie_is_rolled_back_and_it_comes_back_as_a_good_citizen() {
    let site = Site::postgres(SLOW, SHORT);
    let named = format!("{}?application_name=zombie", site.url);
    let (zombie, _other) = (site.host_at("zombie", &named), site.host("other"));
    site.until_shared(&[("other", 6), ("zombie", 6)]);
    let writer = Writer::start(&site);
    until("it is stopped in the middle of a transaction", || {
        zombie.signal(Signal::STOP);
        // What the server was at when it was stopped is over soon; an open transaction stays.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let open = site.number(OPEN) > 0;
        if !open {
            zombie.signal(Signal::CONT);
        }
        open
    });
    let took = site.until_shared(&[("other", 12)]);
    println!("stopped, it was replaced after {took:?}");
    assert!(site.number(OPEN) > 0, "its transaction is still open");
    let committed = writer.stop() as i64;
    let handled = || site.number("select count(*) from handled");
    until("the other has handled all", || handled() == committed);
    zombie.signal(Signal::CONT);
    site.until_shared(&[("other", 6), ("zombie", 6)]);
    until("its transaction is over", || site.number(OPEN) == 0);
    assert_eq!(handled(), committed, "what it had begun is rolled back");
    assert_eq!(site.number("select count(distinct change) from handled"), committed);
    assert!(site.log("zombie").iter().any(|(_, what, _)| what == "lost"), "it says that it lost its leases");
    let writer = Writer::start(&site);
    writer.goes_on_for(100);
    let more = writer.stop() as i64;
    until("both go on", || handled() == committed + more);
    zombie.stop();
}
