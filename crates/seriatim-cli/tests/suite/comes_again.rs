//! What comes again after a host was killed with -9 while one object took its time: what was in flight, and what was answered in
//! the last moments, on every store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim_testkit::servers::{Postgres, Redis};

use crate::handling::{Running, eventually, shop_with};
use crate::server::{Answer, Request, Server, answer};
use crate::shop::Shop;

const EXISTING: u64 = 400;
const WRITTEN: u64 = 1_000;
/// A checkpoint is written every 100 ms; a busy machine may be late.
const LAST_MOMENTS: Duration = Duration::from_secs(3);

/// When each change was answered, by its id.
#[derive(Clone, Default)]
struct Answered(Arc<Mutex<HashMap<u64, tokio::time::Instant>>>);

impl Answered {
    fn note(&self, request: &Request) {
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let ids = body.as_array().unwrap().iter().map(|change| change["id"].as_u64().unwrap());
        let now = seriatim::clock::now();
        self.0.lock().unwrap().extend(ids.map(|id| (id, now)));
    }

    fn all(&self) -> HashMap<u64, tokio::time::Instant> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
}

fn shop(store: &str) -> Shop {
    let shop = shop_with("webhook = \"ADDRESS\"\nbatch = 10\nconcurrency = 4\ntimeout = \"60s\"");
    shop.reconfigure("partitions = 2", "partitions = 1");
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{store}\""));
    let insert = "with recursive more (n) as (select 1 union all select n + 1 from more where n < 397) \
                  insert into orders (amount) select n from more";
    shop.sql(insert);
    shop
}

/// Notes and answers all but the first order: that takes for ever, and so does all that is in one request with it.
fn slow_server(answered: &Answered) -> Server {
    let answered = answered.clone();
    Server::start_with(move |_, request| {
        if request.body.contains(r#""key":{"id":1}"#) {
            return Answer::Never;
        }
        answered.note(request);
        answer(200)
    })
}

fn only_the_last_moments_come_again(store: &str) {
    let (shop, before, after) = (shop(store), Answered::default(), Answered::default());
    let slow = slow_server(&before);
    shop.reconfigure("ADDRESS", &slow.address());
    let running = Running::start(&shop, "run");
    eventually("existing rows are handled", || before.count() >= EXISTING - 10, || running.log());
    let mut writer = shop.connect();
    for _ in 0..WRITTEN / 50 {
        let transaction = writer.transaction().unwrap();
        for _ in 0..50 {
            transaction.execute("insert into orders (amount) values (1)", ()).unwrap();
        }
        transaction.commit().unwrap();
    }
    let all = EXISTING + WRITTEN;
    eventually("what was written is handled", || before.count() >= all - 10, || running.log());
    // Some more, until the others are no longer of the last moments.
    let (last, mut more) = (before.all().into_values().max().unwrap(), 0);
    while last.elapsed() < LAST_MOMENTS {
        writer.execute("insert into orders (amount) values (1)", ()).unwrap();
        more += 1;
        eventually("one more is handled", || before.count() >= all - 10 + more, || running.log());
    }
    drop(running);
    let (killed, known) = (seriatim::clock::now(), before.all());
    let noted = after.clone();
    let quick = Server::start_with(move |_, request| {
        noted.note(request);
        answer(200)
    });
    shop.reconfigure(&slow.address(), &quick.address());
    let running = Running::start(&shop, "run --once");
    let missing =
        || (all + more) as usize - known.keys().chain(after.all().keys()).collect::<HashSet<_>>().len();
    eventually(
        "nothing is lost",
        || missing() == 0,
        || format!("{} are missing; {}", missing(), running.log()),
    );
    running.stop().expect(0, &[]);
    let again = after.all().into_keys().filter_map(|id| Some((id, known.get(&id)?)));
    let old: Vec<u64> = again.filter(|(_, at)| killed - **at > LAST_MOMENTS).map(|(id, _)| id).collect();
    assert!(old.is_empty(), "{} of {} came again: {old:?}", old.len(), known.len());
}

/// The ids of what is handled ahead of a slow change mean nothing in a source that went back: it draws them again.
#[test]
fn a_source_restored_behind_what_was_handled_ahead_stops_its_feed() {
    let (shop, before) = (shop("sqlite:store.db"), Answered::default());
    let server = slow_server(&before);
    shop.reconfigure("ADDRESS", &server.address());
    let running = Running::start(&shop, "run");
    eventually("existing rows are handled", || before.count() >= EXISTING - 10, || running.log());
    shop.sql(&format!("vacuum into '{}'", shop.path("backup.db").display()));
    for _ in 0..40 {
        shop.sql("insert into orders (amount) values (1)");
    }
    eventually("all is handled", || before.count() >= EXISTING + 30, || running.log());
    let remembered = || -> String {
        let store = rusqlite::Connection::open(shop.path("store.db")).unwrap();
        let sql = "select coalesce(max(done_above), '') from seriatim_lease";
        store.query_row(sql, (), |row| row.get(0)).unwrap()
    };
    let (mut last, mut same) = (remembered(), 0);
    eventually(
        "a checkpoint tells so",
        || {
            same = if std::mem::replace(&mut last, remembered()) == last { same + 1 } else { 0 };
            same > 60
        },
        || running.log(),
    );
    drop(running);
    for end in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(shop.path(&format!("shop.db{end}"))));
    }
    std::fs::rename(shop.path("backup.db"), shop.path("shop.db")).unwrap();
    for _ in 0..60 {
        shop.sql("insert into orders (amount) values (2)");
    }
    let ran = crate::handling::run_once(&shop);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("restored from a backup"), "{}", ran.stderr);
}

#[test]
fn on_sqlite() {
    only_the_last_moments_come_again("sqlite:shop.db");
}

#[test]
fn on_postgres() {
    let server = Postgres::shared();
    only_the_last_moments_come_again(&server.url_of(&server.database().unwrap()));
}

#[test]
fn on_redis() {
    let server = Redis::start().unwrap();
    only_the_last_moments_come_again(&server.url());
}

#[cfg(feature = "dynamodb")]
#[test]
fn on_dynamodb() {
    let (url, _server) = crate::dynamodb::table();
    only_the_last_moments_come_again(&url);
}
