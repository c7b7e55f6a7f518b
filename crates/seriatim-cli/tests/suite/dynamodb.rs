//! The program with its store in DynamoDB, and its source in SQLite: hosts that share the work, are killed, and leave objects parked.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use seriatim_testkit::servers::DynamoDb;

use crate::handling::{eventually, lines, parked, program, run_once, shop_with};
use crate::shop::{Shop, finish};

/// One server for all tests that run at the same time; the last one stops it.
static RUNNING: Mutex<Weak<DynamoDb>> = Mutex::new(Weak::new());
static TABLES: AtomicUsize = AtomicUsize::new(0);

/// The URL of a table of its own, which is made by the first who comes.
pub fn table() -> (String, Arc<DynamoDb>) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let server = running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(DynamoDb::start().unwrap());
        *running = Arc::downgrade(&server);
        server
    });
    let table = TABLES.fetch_add(1, Ordering::SeqCst);
    (format!("dynamodb://table-{table}?endpoint={}", server.endpoint()), server)
}

/// Notes the object and its amount; refuses the object 3 while there is a file `broken`.
const HANDLER: &str = r#"
import json, os, sys
for line in sys.stdin:
    change = json.loads(line)
    if change["key"]["id"] == 3 and os.path.exists("broken"):
        print('{"error":"3 is broken"}', flush=True)
        continue
    with open("handled", "a") as out: out.write(f"{change['key']['id']}:{change['after']['amount']}\n")
    print('{"ok":true}', flush=True)
"#;

fn shop(store: &str) -> Shop {
    let shop = shop_with("command = [\"python3\", \"handle.py\"]");
    shop.reconfigure("store = \"sqlite:shop.db\"", &format!("store = \"{store}\""));
    shop.reconfigure("partitions = 2", "partitions = 4");
    let quick = "[lease]\nacquire = \"100ms\"\nrenew = \"300ms\"\nexpire = \"1500ms\"\n[source.shop]";
    shop.reconfigure("[source.shop]", quick);
    shop.sql("update orders set amount = 0; insert into orders (amount) select 0 from orders a, orders b");
    fs::write(shop.path("handle.py"), HANDLER).unwrap();
    shop
}

/// The owners of the feed's partitions.
fn owners(shop: &Shop) -> HashMap<String, usize> {
    let status: serde_json::Value =
        serde_json::from_str(&shop.run("status --json").stdout).unwrap_or_default();
    let mut owners = HashMap::new();
    for partition in status["feeds"][0]["partitions"].as_array().into_iter().flatten() {
        if let Some(owner) = partition["owner"].as_str() {
            *owners.entry(owner.to_owned()).or_default() += 1;
        }
    }
    owners
}

#[test]
fn hosts_share_the_work_and_go_on_after_a_kill() {
    let (url, _server) = table();
    let shop = shop(&url);
    let quiet = || std::process::Stdio::from(fs::File::create(shop.path("host.log")).unwrap());
    let start = |name: &str| program(&shop, &format!("run --host {name}")).stderr(quiet()).spawn().unwrap();
    let (mut ada, mut bob) = (start("ada"), start("bob"));
    let of = |owners: &HashMap<String, usize>, name: &str| owners.get(name).copied().unwrap_or(0);
    let both = || {
        let owners = owners(&shop);
        of(&owners, "ada") == 2 && of(&owners, "bob") == 2
    };
    eventually("both have half of it", both, || format!("{:?}", owners(&shop)));
    for _ in 0..5 {
        shop.sql("update orders set amount = amount + 1");
    }
    ada.kill().unwrap();
    ada.wait().unwrap();
    for _ in 0..5 {
        shop.sql("update orders set amount = amount + 1");
    }
    eventually("bob has all of it", || of(&owners(&shop), "bob") == 4, || format!("{:?}", owners(&shop)));
    let last = || (1..=12).all(|id| lines(&shop, "handled").contains(&format!("{id}:10")));
    eventually("the last changes are handled", last, || format!("{:?}", lines(&shop, "handled")));
    bob.kill().unwrap();
    bob.wait().unwrap();
    run_once(&shop).expect(0, &["at-least-once"]);
    let mut seen: HashMap<String, Vec<u32>> = HashMap::new();
    for line in lines(&shop, "handled") {
        let (id, amount) = line.split_once(':').unwrap();
        seen.entry(id.to_owned()).or_default().push(amount.parse().unwrap());
    }
    for (id, amounts) in seen {
        assert!((0..=10).all(|amount| amounts.contains(&amount)), "nothing of {id} is lost: {amounts:?}");
        let mut highest = 0;
        for amount in &amounts {
            assert!(*amount <= highest + 1, "{id} skipped something: {amounts:?}");
            highest = highest.max(*amount);
        }
    }
}

#[test]
fn what_fails_is_parked_retried_and_discarded() {
    let (url, _server) = table();
    let shop = shop(&url);
    fs::write(shop.path("broken"), "").unwrap();
    run_once(&shop).expect(1, &["3 is broken"]);
    assert_eq!(parked(&shop), 1);
    shop.sql("update orders set amount = 7 where id = 3");
    run_once(&shop).expect(1, &["1 object is parked"]);
    shop.run("parked list").expect(0, &["3 is broken"]);
    shop.run("parked discard totals --key {\"id\":3} --reason never").expect(0, &[]);
    fs::remove_file(shop.path("broken")).unwrap();
    finish(&mut program(&shop, "parked retry totals --all")).expect(0, &[]);
    assert_eq!(parked(&shop), 0);
    assert!(lines(&shop, "handled").contains(&"3:7".to_owned()), "what waited behind it went on");
    shop.run("rewind totals --to now").expect(0, &[]);
    shop.run("unwatch totals").expect(0, &[]);
}

#[test]
fn a_table_that_is_not_there_is_told_apart_from_one_that_will_be_made() {
    let (url, _server) = table();
    let shop = shop(&url);
    shop.run("status").expect(0, &[]);
    let check = || finish(&mut program(&shop, "check"));
    check().expect(0, &["will be made by the first run"]);
    run_once(&shop).expect(0, &[]);
    let checked = check().expect(0, &[]).stdout;
    assert!(checked.contains(" is there") && !checked.contains("will be made"), "{checked}");
    shop.reconfigure("url = \"sqlite:shop.db\"", &format!("url = \"{url}\""));
    shop.run("check").expect(2, &["DynamoDB has none that this version can watch"]);
}
