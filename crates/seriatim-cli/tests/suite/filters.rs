//! Feeds that are about some rows and columns only, and bounds of what may be parked, with the real program.

use serde_json::Value;

use crate::handling::{Running, eventually};
use crate::shop::{Ran, Shop, finish};

const CONFIG: &str = r#"store = "sqlite:shop.db"
[source.shop]
url = "sqlite:shop.db"
[feed.paid]
source = "shop"
capture = "journal"
table = "orders"
partitions = 2
where = "status = 'paid'"
[feed.paid.handler]
stdout = true
"#;

fn shop() -> Shop {
    let shop = Shop::empty();
    shop.configure(CONFIG);
    shop.sql(
        "create table orders (id integer primary key, customer text, amount integer, status text);
         insert into orders values (1, 'ada', 10, 'paid'), (2, 'ada', 20, 'open'), (3, 'bob', 30, 'paid');
         create table totals (customer text primary key, amount integer);",
    );
    shop
}

fn changes(ran: Ran) -> Vec<String> {
    let ran = ran.expect(0, &[]);
    let told = ran.stdout.lines().map(|line| {
        let change: Value = serde_json::from_str(line).unwrap();
        format!("{} {}", change["op"].as_str().unwrap(), change["key"]["id"])
    });
    let mut told: Vec<String> = told.collect();
    told.sort();
    told
}

fn status(shop: &Shop) -> Value {
    serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap()
}

#[test]
fn a_feed_with_a_filter_is_one_of_a_smaller_table() {
    let shop = shop();
    shop.run("check").expect(0, &[]);
    assert_eq!(changes(shop.run("run --once")), ["upsert 1", "upsert 3"]);
    shop.sql(
        "update orders set status = 'paid' where id = 2; update orders set status = 'void' where id = 3",
    );
    assert_eq!(changes(shop.run("run --once")), ["delete 3", "insert 2"]);
    shop.sql("insert into orders values (4, 'bob', 1, 'open')");
    assert_eq!(changes(shop.run("run --once")), Vec::<String>::new());
    for partition in status(&shop)["feeds"][0]["partitions"].as_array().unwrap() {
        assert_eq!(partition["lag"]["changes"], 0, "what does not match is passed too");
    }
    shop.reconfigure("status = 'paid'", "amount < 5");
    shop.sql("update orders set amount = 2 where id in (3, 4)");
    assert_eq!(
        changes(shop.run("run --once")),
        ["insert 3", "update 4"],
        "another filter goes on from there"
    );
}

#[test]
fn totals_of_rows_that_match_come_out_right() {
    let shop = shop();
    let sql = r#"sql = """
insert into totals select :old_customer, -:old_amount where :old_customer is not null
    on conflict (customer) do update set amount = amount + excluded.amount;
insert into totals select :new_customer, :new_amount where :new_customer is not null
    on conflict (customer) do update set amount = amount + excluded.amount;
""""#;
    shop.reconfigure("stdout = true", sql);
    shop.reconfigure("partitions = 2", "partitions = 2\ncolumns = [\"customer\", \"amount\"]");
    for step in [
        "update orders set status = 'paid' where id = 2",
        "update orders set amount = 11 where id = 1; update orders set status = 'open', amount = 99 where id = 2",
        "update orders set customer = 'ada' where id = 3",
        "delete from orders where id = 1; insert into orders values (5, 'bob', 7, 'paid'), (6, 'bob', 8, 'open')",
    ] {
        shop.run("run --once").expect(0, &[]);
        shop.sql(step);
    }
    shop.run("run --once").expect(0, &[]);
    let wrong = "select count(*) from (select customer, sum(amount) s from orders where status = 'paid' group by 1) o
        full join (select * from totals where amount <> 0) t on t.customer = o.customer where s is not amount";
    let wrong: i64 = shop.connect().query_row(wrong, [], |row| row.get(0)).unwrap();
    assert_eq!(wrong, 0);
    shop.reconfigure("columns = [\"customer\", \"amount\"]", "columns = [\"customer\"]");
    shop.run("check").expect(1, &["old_amount", "mend feed.paid.handler.sql"]);
}

#[test]
fn a_filter_that_is_none_is_told_before_anything_runs() {
    let shop = shop();
    shop.reconfigure("status = 'paid'", "stauts = 'paid'");
    let sentence = "feed paid: `where` is no filter for \"orders\": stauts = 'paid': no such column: stauts";
    shop.run("check").expect(1, &[sentence, "one expression on the row's own columns"]);
    shop.run("run --once").expect(1, &[sentence]);
    shop.run("watch").expect(1, &[sentence]);
    shop.run("watch --print").expect(1, &[sentence]);
    shop.reconfigure("stauts = 'paid'", "1) or (1");
    shop.run("check").expect(2, &["seriatim.toml:9: feed.paid.where has a ')' that closes nothing"]);
}

#[test]
fn a_feed_that_reached_the_bound_of_what_may_be_parked_waits_and_says_why() {
    let shop = shop();
    shop.reconfigure("where = \"status = 'paid'\"", "");
    shop.reconfigure("partitions = 2", "partitions = 1");
    shop.reconfigure(
        "stdout = true",
        "sql = \"insert into totals values (:new_customer, :new_amount)\"\n[feed.paid.retry]\nattempts = 1\n\
         [feed.paid.parked]\nobjects = 1",
    );
    shop.sql("insert into totals values ('ada', 0), ('eve', 0)");
    let why = "2 objects are parked, which is the most";
    let host = Running::start(&shop, "run");
    host.says(why);
    host.stop().expect(0, &[]);
    shop.sql("insert into orders values (7, 'eve', 1, 'paid'), (8, 'ann', 1, 'paid')");
    // It has asked for nothing yet, so nothing comes on top.
    let host = Running::start(&shop, "run");
    host.says(why);
    eventually("status says so", || shop.run("status").stdout.contains(why), || host.log());
    assert_eq!(status(&shop)["feeds"][0]["parked"], 2, "and reads no further");
    shop.sql("delete from totals where customer = 'ada'");
    shop.run("parked retry paid --key 1").expect(0, &[]);
    discard(&shop, 2).expect(0, &[]);
    let ann = "select count(*) from totals where customer = 'ann'";
    let handled = || shop.connect().query_row(ann, [], |row| row.get::<_, i64>(0)).unwrap() == 1;
    eventually("it goes on by itself", handled, || host.log());
    host.stop().expect(0, &[]);
    assert_eq!(status(&shop)["feeds"][0]["parked"], 1, "the order that came meanwhile and cannot be handled");
}

fn discard(shop: &Shop, key: i64) -> Ran {
    finish(shop.command(&format!("parked discard paid --key {key}")).args(["--reason", "a test"]))
}
