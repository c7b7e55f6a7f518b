//! What an operator does: looks, pauses, renames, takes out, and takes everything out.

use serde_json::Value;
use seriatim_testkit::servers::{Postgres, Redis};

use crate::handling::{Running, eventually, lines, program, shop_with};
use crate::queues::Works;
use crate::shop::Shop;

const NOTING: &str =
    r#"command = ["/bin/sh", "-c", 'while read l; do echo "$l" >> handled; echo "{\"ok\":true}"; done']"#;

fn status(shop: &Shop) -> Value {
    serde_json::from_str(&shop.run("status --json").expect(0, &[]).stdout).unwrap()
}

/// Shops with their stores everywhere, their sources in a file or in PostgreSQL.
fn shops(handler: &str) -> Vec<(Shop, Option<Redis>)> {
    let redis = Redis::start().unwrap();
    let server = Postgres::shared();
    let postgres = server.url_of(&server.database().unwrap());
    let mut shops = Vec::new();
    for store in ["sqlite:shop.db", "sqlite:store.db", &postgres, &redis.url()] {
        let shop = shop_with(handler);
        shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{store}\""));
        shops.push((shop, None));
    }
    if let Some((_, kept)) = shops.last_mut() {
        *kept = Some(redis);
    }
    shops
}

#[test]
fn a_paused_feed_stands_still_also_after_a_restart_until_it_is_resumed() {
    for (shop, _server) in shops(NOTING) {
        let running = Running::start(&shop, "run --host anna");
        eventually("three are handled", || lines(&shop, "handled").len() == 3, || running.log());
        shop.run("pause totals").expect(0, &["feed totals: paused", "seriatim resume totals"]);
        shop.run("pause totals").expect(0, &["was paused already"]);
        running.says("paused since");
        shop.sql("insert into orders (amount) values (40)");
        let feed = status(&shop)["feeds"][0].clone();
        assert_eq!(feed["paused"], true, "{feed}");
        assert_eq!(feed["blocked_by"][0]["what"], "it is paused", "{feed}");
        assert!(feed["blocked_by"][0]["since"].as_str().unwrap().ends_with('Z'), "{feed}");
        assert_eq!(feed["partitions"][0]["owner"], "anna", "the leases are kept: {feed}");
        shop.run("status").expect(0, &["paused", "`seriatim resume totals` lets it go on"]);
        running.stop().expect(0, &[]);
        let again = Running::start(&shop, "run --host anna");
        again.says("paused since");
        let once = program(&shop, "run --once").output().unwrap();
        let said = String::from_utf8_lossy(&once.stderr).into_owned();
        assert_eq!(once.status.code(), Some(1), "{said}");
        assert!(said.contains("it is paused since") && said.contains("seriatim resume totals"), "{said}");
        assert_eq!(lines(&shop, "handled").len(), 3);
        shop.run("resume totals").expect(0, &["feed totals: resumed"]);
        eventually("the rest is handled", || lines(&shop, "handled").len() == 4, || again.log());
        assert_eq!(status(&shop)["feeds"][0]["blocked_by"], Value::Array(vec![]));
        shop.run("resume totals").expect(0, &["was not paused"]);
        again.stop().expect(0, &[]);
    }
}

#[test]
fn a_paused_queue_rests() {
    for works in Works::everywhere() {
        let shop = &works.shop;
        shop.reconfigure("handler = { stdout = true }", &format!("handler = {{ {NOTING} }}"));
        works.push("work:1", &["1"]).expect(0, &["feed works: 1 event of work:1 pushed"]);
        let running = Running::start(shop, "run");
        eventually("it is sent", || lines(shop, "handled").len() == 1, || running.log());
        shop.run("pause works").expect(0, &["feed works: paused"]);
        running.says("paused;");
        works.push("work:1", &["2", "3"]).expect(0, &["2 events of work:1 pushed"]);
        assert_eq!(status(shop)["feeds"][0]["blocked_by"][0]["what"], "it is paused");
        shop.run("run --once --host other").expect(1, &["it is paused", "seriatim resume works"]);
        assert_eq!(lines(shop, "handled").len(), 1);
        shop.run("resume works").expect(0, &["resumed"]);
        eventually("the rest is sent", || lines(shop, "handled").len() == 3, || running.log());
        running.stop().expect(0, &[]);
    }
}

#[test]
fn status_is_one_line_for_each_feed_and_all_partitions_when_asked() {
    let shop = Shop::open();
    shop.reconfigure("partitions = 4", "partitions = 16");
    shop.run("run --once").expect(0, &[]);
    let short = shop.run("status").expect(0, &["totals", "journal", "at-least-once", "0/16", "none"]).stdout;
    assert!(short.lines().count() <= 5, "{short}");
    let long = shop.run("status --partitions").expect(0, &["after a crash, at most"]).stdout;
    assert!(long.lines().count() > 16, "{long}");
    let feed = status(&shop)["feeds"][0].clone();
    assert_eq!((&feed["parked"], &feed["parked_changes"]), (&Value::from(0), &Value::from(0)));
    assert_eq!(feed["comes_again"]["in_flight"], 800, "{feed}");
}

#[test]
fn status_can_be_watched() {
    let shop = Shop::open();
    shop.run("run --once").expect(0, &[]);
    let mut child = shop.start("status --json --watch=1");
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    let twice: Vec<String> = std::io::BufRead::lines(out).take(2).map(Result::unwrap).collect();
    assert!(twice.iter().all(|line| line.starts_with(r#"{"feeds":[{"name":"totals""#)), "{twice:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_feed_that_is_renamed_is_named_by_its_old_name_and_can_be_taken_out() {
    for (shop, _server) in shops(NOTING) {
        shop.run("run --once").expect(0, &[]);
        shop.reconfigure("[feed.totals", "[feed.sums");
        let said =
            shop.run("check").expect(0, &["feed totals is not in", "`seriatim unwatch totals`"]).stdout;
        assert!(said.contains("totals that are kept by differences are doubled"), "{said}");
        shop.run("run --once").expect(0, &["feed sums is new and begins with all rows", "doubled"]);
        shop.sql("insert into orders (amount) values (40)");
        let shown = status(&shop);
        let of = |name: &str| shown["feeds"].as_array().unwrap().iter().find(|f| f["name"] == name).unwrap();
        assert_eq!(of("sums")["blocked_by"], Value::Array(vec![]), "nothing blocks it: {shown}");
        assert_eq!(of("totals")["capture"], Value::Null);
        assert!(shown["notes"][0]["what"].as_str().unwrap().contains("feed totals is not in"), "{shown}");
        shop.run("status").expect(0, &["not in the config", "`seriatim unwatch totals` forgets it"]);
        shop.run("unwatch totals").expect(0, &["feed totals: taken out of", "checkpoints are forgotten"]);
        let shown = status(&shop);
        assert_eq!((shown["feeds"].as_array().unwrap().len(), &shown["notes"]), (1, &Value::Null));
        shop.run("unwatch totals").expect(2, &["there is no feed \"totals\""]);
        shop.run("run --once").expect(0, &[]);
        assert_eq!(lines(&shop, "handled").len(), 7);
    }
}

/// Everything that a file has, by name.
fn objects(shop: &Shop, file: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(shop.path(file)).unwrap();
    let mut statement = connection
        .prepare("select name from sqlite_master where name not like 'sqlite_%' order by name")
        .unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_purge_takes_everything_out() {
    for (shop, server) in shops(NOTING) {
        shop.run("run --once").expect(0, &[]);
        program(&shop, "once run --processor p --id 1 -- true").output().unwrap();
        let running = Running::start(&shop, "run --host anna");
        running.says("owns 2 of 2");
        shop.run("unwatch --purge").expect(1, &["still running: host anna", "--force"]);
        running.stop().expect(0, &[]);
        shop.run("unwatch --purge").expect(0, &[]);
        assert_eq!(objects(&shop, "shop.db"), ["orders"]);
        assert!(!shop.path("shop.db-hosts").exists() && !shop.path("store.db-hosts").exists());
        assert!(!shop.path("store.db").exists(), "made by the program, and of nobody else's use");
        if let Some(redis) = &server {
            let mut asked = std::process::Command::new("redis-cli");
            let port = redis.url().rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
            let keys = asked.args(["-p", &port, "dbsize"]).output().unwrap().stdout;
            assert_eq!(String::from_utf8(keys).unwrap().trim().trim_start_matches("(integer) "), "0");
        }
        assert_eq!(status(&shop)["feeds"], Value::Array(vec![]));
        shop.run("unwatch --purge").expect(0, &["nothing of Seriatim was in it"]);
        shop.run("run --once").expect(0, &[]);
    }
}

#[test]
fn check_tells_of_everything_at_once() {
    let shop = shop_with("command = [\"python3\", \"no-such-file.py\"]");
    let text = std::fs::read_to_string(shop.path("seriatim.toml")).unwrap();
    let second = "[feed.mails]\nsource = \"shop\"\ncapture = \"journal\"\ntable = \"mails\"\n\
                  handler = { command = [\"no-such-program\"] }\n";
    shop.configure(&format!("{text}{second}"));
    let ran = program(&shop, "check").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    for words in
        ["warning  feed totals", "no file no-such-file.py", "\"mails\"", "no-such-program", "2 problems"]
    {
        assert!(said.contains(words), "no {words} in {said}");
    }
    assert_eq!(ran.status.code(), Some(1));
}

#[test]
fn all_that_is_wrong_with_a_config_is_told_at_once() {
    let shop = Shop::empty();
    shop.configure(
        "store = \"sqlite:shop.db\"\n[source.shop]\nurl = \"mysql:shop\"\n[feed.a]\nsource = \"shop\"\ncapture = \"jornal\"\n\
         table = \"t\"\npartitons = 3\n[feed.a.handler]\nstdout = true\nbatch = 0\n[feed.b]\nsource = \"shup\"\n\
         capture = \"journal\"\ntable = \"t\"\n[lease]\nrenew = \"3 bananas\"\n",
    );
    shop.run("check").expect(
        2,
        &[
            "mysql",
            "jornal",
            "unknown key feed.a.partitons",
            "feed.a.handler.batch",
            "\"shup\"",
            "feed.b.handler",
            "bananas",
        ],
    );
}

#[test]
fn the_file_of_a_queue_need_not_be_there() {
    let shop = Works::at("sqlite:queue.db");
    shop.run("check").expect(0, &["source shop", "will be made by the first push"]);
    assert!(!shop.path("queue.db").exists());
    shop.run("run --once").expect(0, &[]);
    shop.run("queue push works work:1 1").expect(0, &["1 event of work:1 pushed"]);
}

#[test]
fn a_rewind_to_the_beginning_warns_that_everything_is_handled_again() {
    let shop = Shop::open();
    shop.run("run --once").expect(0, &[]);
    shop.run("rewind totals --to beginning").expect(0, &["all rows of orders are handled again", "doubled"]);
    assert_eq!(shop.run("run --once").expect(0, &[]).stdout.lines().count(), 3);
}

#[test]
fn slips_of_the_finger_are_named() {
    let shop = Shop::open();
    shop.reconfigure("stdout = true", "sql = \"insert into totals values (:key_id, :nwe_amount)\"");
    shop.run("check").expect(1, &["did you mean :new_amount?"]);
    // The first order cannot be handled; the others show that it is not the target's fault.
    shop.reconfigure(":nwe_amount", ":new_amount), (case :key_id when 1 then 1 else :key_id + 100 end, 1");
    shop.reconfigure("[feed.totals.handler]", "[feed.totals.retry]\nattempts = 1\n[feed.totals.handler]");
    shop.run("run --once").expect(1, &["1 object is parked"]);
    shop.run(r#"parked show totals --key {"ID":1}"#).expect(2, &["has the columns id", "--key '{\"id\":…}'"]);
}
