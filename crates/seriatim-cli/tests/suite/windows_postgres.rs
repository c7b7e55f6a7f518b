//! Window feeds on PostgreSQL, from outside: what is late is waited for, named, and delivered.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use seriatim_testkit::servers::Postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::shop::{Shop, finish};

const CONFIG: &str = r#"store = "URL"
[source.shop]
url = "URL"
[feed.totals]
source = "shop"
capture = "window"
table = "orders"
changed_at = "updated_at"
buffer = "100ms"
every = "20ms"
[feed.totals.handler]
sql = "insert into told (id, at, version) values (:key_id, :new_updated_at, :id)"
[lease]
acquire = "100ms"
renew = "300ms"
expire = "1500ms"
"#;

const SCHEMA: &str = "
create table orders (id bigint primary key, amount int, updated_at timestamptz default now());
create index on orders (updated_at, id);
create table told (place bigint generated always as identity, id bigint, at timestamptz, version bigint, primary key (id, at));
insert into orders values (1, 10, to_timestamp(1)), (2, 20, to_timestamp(2)), (3, 30, to_timestamp(2))";

struct Fleet {
    shop: Shop,
    url: String,
    runtime: Runtime,
    client: Client,
}

impl Fleet {
    fn new() -> Self {
        let server = Postgres::shared();
        let url = server.url_of(&server.database().unwrap());
        let shop = Shop::empty();
        shop.configure(&CONFIG.replace("URL", &url));
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(connect(&url));
        let fleet = Fleet { shop, url, runtime, client };
        fleet.sql(SCHEMA);
        fleet
    }

    fn sql(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    fn told(&self) -> Vec<i64> {
        let rows =
            self.runtime.block_on(self.client.query("select id from told order by place", &[])).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn feed(&self) -> Value {
        let status = self.shop.run("status --json").expect(0, &[]).stdout;
        serde_json::from_str::<Value>(&status).unwrap()["feeds"][0].clone()
    }

    fn host(&self, name: &str) -> Running {
        let mut command = self.shop.command(&format!("run --host {name}"));
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// A host; killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = seriatim::clock::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rows_are_handled_exactly_once_and_nothing_is_installed() {
    let fleet = Fleet::new();
    fleet.shop.run("watch --print").expect(0, &["installs nothing"]);
    fleet.shop.run("check").expect(0, &["window of orders needs nothing installed; exactly-once"]);
    fleet.shop.run("run --once").expect(0, &["there is no tracker: beginning with the first row"]);
    assert_eq!(fleet.told(), [1, 2, 3]);
    assert_eq!(fleet.feed()["partitions"][0]["position"], "1970-01-01T00:00:02Z [3]");
    fleet.shop.run("run --once").expect(0, &[]);
    assert_eq!(fleet.told(), [1, 2, 3]);
    fleet.sql("update orders set amount = 11, updated_at = now() where id = 1");
    fleet.shop.run("run --once").expect(0, &[]);
    assert_eq!(fleet.told(), [1, 2, 3, 1], "what is there is waited for until it is old enough");
    fleet.sql("drop index orders_updated_at_id_idx");
    let missing = r#"→ create index concurrently on "public"."orders" ("updated_at", "id")"#;
    fleet.shop.run("check").expect(0, &["slow", "reads all its rows", missing]);
    fleet.shop.reconfigure("\"updated_at\"", "\"udpated_at\"");
    fleet.shop.run("check").expect(1, &["did you mean \"updated_at\"?"]);
}

#[test]
fn a_transaction_that_stays_open_is_named_and_what_it_commits_is_handled_in_its_place() {
    let fleet = Fleet::new();
    let running = fleet.host("a");
    until("the rows are handled", || fleet.told().len() == 3);
    let late = fleet.runtime.block_on(async {
        let late = connect(&format!("{}?application_name=forgetful", fleet.url)).await;
        late.batch_execute("begin; select 1").await.unwrap();
        late
    });
    fleet.sql("insert into orders values (9, 90)");
    until("it is named", || {
        let blocked = fleet.feed()["blocked_by"].to_string();
        blocked.contains("waits for a transaction of forgetful (pid ")
            && blocked.contains("pg_terminate_backend")
    });
    assert_eq!(fleet.told().len(), 3, "far later than the buffer");
    fleet.runtime.block_on(late.batch_execute("insert into orders values (4, 40); commit")).unwrap();
    until("both are handled", || fleet.told().len() == 5);
    assert_eq!(fleet.told(), [1, 2, 3, 4, 9]);
    drop(running);
}

#[test]
fn of_two_processes_one_works_and_when_it_is_killed_the_other_goes_on() {
    let fleet = Fleet::new();
    let mut hosts = vec![("a", fleet.host("a")), ("b", fleet.host("b"))];
    until("the rows are handled", || fleet.told().len() == 3);
    fleet.sql("insert into orders select i, 0, now() from generate_series(100, 149) i");
    until("more are handled", || fleet.told().len() == 53);
    let owner = fleet.feed()["partitions"][0]["owner"].as_str().unwrap().to_owned();
    hosts.retain(|(name, _)| *name != owner);
    assert_eq!(hosts.len(), 1);
    fleet.sql("insert into orders select i, 0, now() from generate_series(200, 249) i");
    until("the other one goes on", || fleet.told().len() == 103);
    let expected: Vec<i64> = (1..=3).chain(100..=149).chain(200..=249).collect();
    assert_eq!(fleet.told(), expected, "none twice, and in order");
}

#[test]
fn a_host_whose_clock_is_wrong_by_a_day_handles_the_same() {
    for wrong_by in ["+1d", "-1d"] {
        let fleet = Fleet::new();
        let once = |expected: &[i64]| {
            let line = format!("-f {wrong_by} {} run --once", crate::shop::PROGRAM);
            finish(&mut fleet.shop.command_of(Path::new("faketime"), &line)).expect(0, &[]);
            assert_eq!(fleet.told(), expected, "by a clock that is wrong by {wrong_by}");
        };
        once(&[1, 2, 3]);
        fleet.sql("insert into orders values (4, 40, now()), (5, 50, now() + interval '1 hour')");
        once(&[1, 2, 3, 4]);
        fleet.sql("insert into orders values (6, 60)");
        once(&[1, 2, 3, 4, 6]);
    }
}

#[test]
fn a_role_without_the_privilege_is_told_so_and_works_by_the_buffer() {
    let fleet = Fleet::new();
    let database = fleet.url.rsplit('/').next().unwrap().to_owned();
    let role = format!("window_{database}");
    fleet.sql(&format!("create role {role} login; grant select on orders to {role}"));
    let plain = fleet.url.replace("postgres@", &format!("{role}@"));
    let config = CONFIG.replace("store = \"URL\"", "store = \"sqlite:store.db\"").replace("URL", &plain);
    let config = config.replace("sql = ", "stdout = true # ");
    fleet.shop.configure(&config);
    let said = format!("the role {role} may not see the transactions of other roles");
    fleet.shop.run("check").expect(0, &[&said, &format!("grant pg_read_all_stats to \"{role}\"")]);
    let ran = fleet.shop.run("run --once").expect(0, &[&said]);
    assert_eq!(ran.stderr.matches(&said).count(), 1, "once");
    assert_eq!(ran.stdout.lines().count(), 3);
    fleet.sql(&format!("grant pg_read_all_stats to {role}"));
    let ran = fleet.shop.run("run --once").expect(0, &[]);
    assert!(!ran.stderr.contains(&said));
    fleet.sql(&format!("drop owned by {role} cascade; drop role {role}"));
}
