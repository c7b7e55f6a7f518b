//! `chain = true`: changes name the one of the same object before them, whatever happens in between.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};

use seriatim::order::{Admit, EventId, Link, admit};
use seriatim_testkit::servers::Postgres;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::shop::{Shop, config};

/// A shop whose orders are watched with a chain, in a SQLite file or in PostgreSQL.
struct Chained {
    shop: Shop,
    postgres: Option<String>,
}

impl Chained {
    fn open(capture: &str, postgres: Option<String>) -> Self {
        let shop = Shop::empty();
        let url = postgres.clone().unwrap_or_else(|| "sqlite:shop.db".to_owned());
        let config = config(capture, "orders").replace("sqlite:shop.db", &url);
        shop.configure(&config.replace("partitions = 4\n", "partitions = 4\nchain = true\n"));
        let chained = Chained { shop, postgres };
        chained.sql("create table orders (id integer primary key, amount integer)");
        chained.sql("insert into orders values (1, 10), (2, 20), (3, 30)");
        chained
    }

    fn everywhere(capture: &str) -> [Self; 2] {
        let server = Postgres::shared();
        let url = server.url_of(&server.database().unwrap());
        [Chained::open(capture, None), Chained::open(capture, Some(url))]
    }

    fn sql(&self, sql: &str) {
        let Some(url) = &self.postgres else { return self.shop.sql(sql) };
        Runtime::new().unwrap().block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        });
    }

    fn run(&self) -> String {
        self.shop.run("run --once").expect(0, &[]).stdout
    }
}

fn link(line: &str) -> (String, Link) {
    let change: serde_json::Value = serde_json::from_str(line).unwrap();
    let id = EventId(change["id"].as_u64().unwrap());
    (change["key"].to_string(), Link::new(id, change["prev"].as_u64().map(EventId)).unwrap())
}

/// What a consumer with a gate applies: each change once, in order; how many came twice; what was told twice was told the same.
#[track_caller]
fn applied(lines: &str) -> (usize, usize) {
    let (mut last, mut told): (HashMap<String, EventId>, HashMap<_, Link>) = Default::default();
    let mut twice = 0;
    for line in lines.lines() {
        let (key, link) = link(line);
        if let Some(before) = told.insert((key.clone(), link.id()), link) {
            assert_eq!(before, link, "told again, but not the same: {line}");
        }
        match admit(last.get(&key).copied(), link).unwrap() {
            Admit::Apply => drop(last.insert(key, link.id())),
            Admit::Duplicate => twice += 1,
            Admit::Wait { prev } => panic!("{prev} is missing before {line} in {lines}"),
        }
    }
    (lines.lines().count() - twice, twice)
}

#[test]
fn each_change_names_the_one_before_it_over_many_runs() {
    for capture in ["journal", "log"] {
        for orders in Chained::everywhere(capture) {
            let mut lines = orders.run();
            assert!(lines.lines().all(|line| line.ends_with(r#""prev":null}"#)), "{lines}");
            for round in 0..3 {
                orders.sql(&format!("update orders set amount = amount + {round} + 1"));
                orders.sql("update orders set amount = amount + 1 where id = 2");
                orders.sql(&format!("insert into orders values (1{round}, 1)"));
                lines += &orders.run();
            }
            orders.sql("delete from orders where id = 2");
            orders.sql("insert into orders values (2, 99)");
            lines += &orders.run();
            let changes = if capture == "journal" { 3 + 5 + 6 + 7 + 2 } else { 3 + 4 + 5 + 6 + 1 };
            assert_eq!(applied(&lines), (changes, 0), "{lines}");
            let of_two: Vec<_> = lines.lines().filter(|line| line.contains(r#""key":{"id":2}"#)).collect();
            assert!(of_two.len() >= 5 && !of_two[1].ends_with("null}"), "{of_two:?}");
        }
    }
}

#[test]
fn a_host_that_is_killed_leaves_no_gap_and_no_fork() {
    for orders in Chained::everywhere("journal") {
        orders.run();
        orders.sql("update orders set amount = amount + 1");
        let mut host = orders.shop.start("run");
        let mut lines = String::new();
        let mut output = BufReader::new(host.stdout.take().unwrap());
        for round in 0..20 {
            orders.sql("update orders set amount = amount + 1");
            while lines.lines().count() < 3 * round + 3 {
                output.read_line(&mut lines).unwrap();
            }
        }
        host.kill().unwrap();
        host.wait().unwrap();
        std::io::Read::read_to_string(&mut output, &mut lines).unwrap();
        orders.sql("update orders set amount = amount + 1");
        let told: Vec<&str> = lines.lines().filter(|line| line.ends_with('}')).collect();
        let whole = told.join("\n") + "\n" + &orders.run();
        let mut last: HashMap<String, EventId> = HashMap::new();
        let mut seen: HashMap<_, Link> = HashMap::new();
        for line in whole.lines() {
            let (key, link) = link(line);
            let before = seen.insert((key.clone(), link.id()), link);
            assert!(before.is_none_or(|before| before == link), "told again, but not the same: {line}");
            let last = last.entry(key).or_insert(link.prev().unwrap());
            match admit(Some(*last), link).unwrap() {
                Admit::Apply => *last = link.id(),
                Admit::Duplicate => {}
                Admit::Wait { prev } => panic!("{prev} is missing before {line}"),
            }
        }
        assert_eq!(seen.len(), 3 * 22, "{whole}");
    }
}

#[test]
fn a_rewound_feed_forks_no_chain() {
    for orders in Chained::everywhere("journal") {
        let mut lines = orders.run();
        orders.sql("update orders set amount = amount + 1");
        orders.sql("update orders set amount = amount + 1");
        lines += &orders.run();
        orders.shop.run("rewind totals --to beginning").expect(0, &[]);
        orders.sql("update orders set amount = amount + 1");
        lines += &orders.run();
        // Rows that exist are told anew: where they have new ids, they are new to a gate; where not, it has seen later states.
        let (applied, twice) = applied(&lines);
        assert_eq!((applied + twice, twice), (15, if orders.postgres.is_some() { 3 } else { 0 }), "{lines}");
    }
}

#[test]
fn a_parked_change_keeps_its_place() {
    for orders in Chained::everywhere("journal") {
        let first = orders.run();
        let refusing = r#"command = ["/bin/sh", "-c", 'while read l; do case "$l" in *777*) echo "{\"error\":\"bitter\"}";; *) echo "{\"ok\":true}";; esac; done']"#;
        orders.shop.reconfigure("stdout = true", refusing);
        orders.shop.reconfigure("chain = true", "chain = true\nretry = { attempts = 1 }");
        orders.sql("update orders set amount = 777 where id = 2");
        orders.sql("update orders set amount = 778 where id = 2");
        orders.shop.run("run --once").expect(1, &["1 object is parked"]);
        orders.shop.run("parked list").expect(0, &["bitter"]);
        orders.shop.reconfigure(refusing, "stdout = true");
        let retried = orders.shop.run("parked retry totals --all").expect(0, &[]).stdout;
        let told: Vec<&str> = retried.lines().filter(|line| line.starts_with('{')).collect();
        orders.sql("update orders set amount = 779 where id = 2");
        let lines = first + &told.join("\n") + "\n" + &orders.run();
        assert_eq!(applied(&lines), (6, 0), "{lines}");
    }
}

#[test]
fn a_transaction_keeps_the_chain_with_its_effect() {
    for orders in Chained::everywhere("journal") {
        orders.sql("create table handled (id bigint primary key)");
        let sql = r#"sql = "insert into handled (id) values (:id)""#;
        orders.shop.reconfigure("stdout = true", sql);
        assert_eq!(orders.run(), "");
        orders.sql("update orders set amount = amount + 1");
        orders.sql("update orders set amount = amount + 1");
        orders.run();
        orders.shop.reconfigure(sql, "stdout = true");
        orders.sql("update orders set amount = amount + 1 where id = 2");
        let lines = orders.run();
        let (_, link) = link(lines.lines().next().unwrap());
        assert_eq!(link.prev(), Some(EventId(link.id().0 - 2)), "{lines}");
    }
}

#[test]
fn where_there_can_be_no_chain_it_is_refused() {
    let orders = Chained::open("journal", None);
    orders.shop.reconfigure("chain = true", "chain = \"yes\"");
    orders.shop.run("check").expect(2, &["feed.totals.chain"]);
    orders.shop.reconfigure("chain = \"yes\"", "chain = true");
    orders.shop.reconfigure("chain = true", "chain = true\nwhere = \"amount > 1\"");
    orders.shop.run("check").expect(2, &["cannot go with `where`"]);
    orders.shop.reconfigure("\nwhere = \"amount > 1\"", "");
    orders.shop.reconfigure("capture = \"journal\"", "capture = \"window\"\nchanged_at = \"amount\"");
    orders.shop.run("check").expect(2, &["is for journal and log feeds"]);
    let server = Postgres::shared();
    let orders = Chained::open("journal", Some(server.url_of(&server.database().unwrap())));
    orders.shop.reconfigure("chain = true", "chain = true\nkey = [\"amount\"]");
    orders.shop.run("check").expect(2, &["cannot go with `key` for a journal in PostgreSQL"]);
}

#[test]
fn a_store_that_keeps_no_chains_says_so() {
    let redis = seriatim_testkit::servers::Redis::start().unwrap();
    let orders = Chained::open("journal", None);
    orders.shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{}\"", redis.url()));
    orders.shop.run("run --once").expect(2, &["its store cannot keep one"]);
}
