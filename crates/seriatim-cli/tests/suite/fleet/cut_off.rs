//! A host that cannot reach the store for longer than its leases last.

use seriatim_testkit::servers::{Postgres, Proxy};

use super::site::{SHORT, Site, Writer, until};

const EXACT: &str = "sql = \"insert into handled (change) values (:id)\"\nbatch = 10";

#[test]
fn on_postgres_a_host_that_is_cut_off_stops_and_goes_on_when_the_store_is_back() {
    let site = Site::postgres(EXACT, SHORT);
    let port = Postgres::shared().port();
    let proxy = Proxy::before(port).unwrap();
    let url = site.url.replace(&format!(":{port}"), &format!(":{}", proxy.port()));
    assert_ne!(url, site.url);
    let cut_off = site.host_at("cut-off", &url);
    site.until_shared(&[("cut-off", 12)]);
    let writer = Writer::start(&site);
    let handled = || site.number("select count(*) from handled");
    until("it works", || handled() > 20);

    // Alone: everything waits, and nothing is lost.
    proxy.close();
    until("it gives its leases up by itself", || {
        site.log("cut-off").iter().filter(|(_, what, _)| what == "lost").count() >= 12
    });
    let before = handled();
    writer.goes_on_for(50);
    assert_eq!(handled(), before, "nobody handles anything");
    proxy.open();
    until("it goes on", || handled() > before + 50);

    // With another: that one takes over, and shares again afterwards.
    let _other = site.host("other");
    site.until_shared(&[("cut-off", 6), ("other", 6)]);
    proxy.close();
    let took = site.until_shared(&[("other", 12)]);
    println!("cut off, it was replaced after {took:?}");
    proxy.open();
    site.until_shared(&[("cut-off", 6), ("other", 6)]);
    let committed = writer.stop() as i64;
    until("all is handled", || handled() == committed);
    assert_eq!(site.number("select count(distinct change) from handled"), committed);
    cut_off.stop();
}
