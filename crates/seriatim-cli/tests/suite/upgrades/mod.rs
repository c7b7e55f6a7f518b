//! Databases that a version of before has left, in the middle of its work: this one goes on with them.
//!
//! `tests/fixtures/README.md` says what is in them.

mod fleet;
mod gates;
mod restored;

use std::collections::HashMap;

use serde_json::{Value, json};

use self::restored::Restored;

/// How many changes a feed's handler has noted when the version of before ended, when what was waiting is handled, and when
/// what was parked is handled too.
const COUNTS: [(&str, [usize; 3]); 6] = [
    ("chained", [9, 12, 12]),
    ("plain", [3, 5, 7]),
    ("states", [8, 11, 11]),
    ("recent", [3, 5, 5]),
    ("mails", [9, 12, 12]),
    ("works", [2, 5, 7]),
];
const RUN: &str = "run --once totals chained plain states recent mails works";

#[test]
fn a_sqlite_file_of_before_goes_on() {
    let restored = Restored::sqlite();
    goes_on(&restored);
    gates::goes_on(&restored.store);
}

#[test]
fn a_postgres_database_of_before_goes_on() {
    let restored = Restored::postgres();
    goes_on(&restored);
    gates::goes_on(&restored.store);
}

#[test]
fn a_redis_of_before_goes_on() {
    let restored = Restored::redis();
    goes_on(&restored);
    gates::goes_on(&restored.store);
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_dynamodb_table_of_before_goes_on() {
    goes_on(&Restored::dynamodb());
}

#[test]
fn a_fleet_goes_on_with_a_sqlite_file_of_before() {
    fleet::goes_on(&Restored::sqlite());
}

#[test]
fn a_fleet_goes_on_with_a_postgres_database_of_before() {
    fleet::goes_on(&Restored::postgres());
}

fn goes_on(restored: &Restored) {
    everything_is_as_it_was(restored);
    what_waits_is_handled_once(restored);
    what_is_parked_is_retried(restored);
    what_was_watched_begins(restored);
    what_was_protected_stays(restored);
    new_changes_follow(restored);
}

fn everything_is_as_it_was(restored: &Restored) {
    assert_counts(restored, 0);
    let status = restored.json("status");
    let parked = |feed: &Value| (feed["name"].as_str().unwrap().to_owned(), feed["parked"].as_u64().unwrap());
    let parked: HashMap<_, _> = status["feeds"].as_array().unwrap().iter().map(parked).collect();
    for (feed, parked) in parked {
        assert_eq!(parked, u64::from(["totals", "plain", "works"].contains(&feed.as_str())), "{status}");
    }
    assert_parked(
        restored,
        &json!([["plain", {"id": 2}, 2], ["totals", {"id": 2}, 2], ["works", {"object": "work:2"}, 2]]),
    );
    let waiting = restored.json("queue inspect works");
    assert!(waiting.to_string().contains(r#""object":"work:3","waiting":2"#), "{waiting}");
    restored.run("queue invariants works").expect(0, &["all invariants hold"]);
}

fn what_waits_is_handled_once(restored: &Restored) {
    // It may say by its code that something is parked.
    let ran = restored.run(RUN);
    assert!(ran.code <= 1, "{ran:?}");
    assert_counts(restored, 1);
    restored.run("queue inspect works").expect(0, &[]);
    assert_parked(
        restored,
        &json!([["plain", {"id": 2}, 2], ["totals", {"id": 2}, 2], ["works", {"object": "work:2"}, 2]]),
    );
    // The order that is parked is missing in its customer's total.
    assert_eq!(
        totals(restored),
        [("ada", 140), ("bob", 71), ("cyd", 0)].map(|(name, sum)| (name.to_owned(), sum))
    );
}

fn what_is_parked_is_retried(restored: &Restored) {
    restored.heal();
    for feed in ["totals", "plain", "works"] {
        restored.run(&format!("parked retry {feed} --all")).expect(0, &["handled to the end"]);
    }
    restored.run(RUN).expect(0, &[]);
    assert_parked(restored, &json!([]));
    assert_counts(restored, 2);
    assert_eq!(
        totals(restored),
        [("ada", 140), ("bob", 73), ("cyd", 0)].map(|(name, sum)| (name.to_owned(), sum))
    );
    // Each change has one row there: a second one of the same would have failed.
    let orders =
        restored.numbers("select cast(order_id as bigint), count(*) from handled group by 1 order by 1");
    assert_eq!(orders, [(1, 3), (2, 4), (3, 3), (4, 1), (5, 1)]);
    for feed in ["chained", "plain", "mails", "works"] {
        assert_in_order(restored, feed);
    }
    assert_linked(restored);
}

/// The rows that existed when it was watched come as they were then, and the changes since after them.
fn what_was_watched_begins(restored: &Restored) {
    restored.run("run --once late").expect(0, &[]);
    let told = restored.handled("late");
    let of = |id: i64| -> Vec<&str> {
        let of = told.iter().filter(|change| change["key"]["id"] == id);
        of.map(|change| change["after"]["body"].as_str().unwrap()).collect()
    };
    assert_eq!(of(1), ["one", "one again"]);
    assert_eq!(of(2), ["two", "poison", "two again"]);
    assert_eq!((of(3), of(4)), (vec!["three"], vec!["four"]));
}

fn what_was_protected_stays(restored: &Restored) {
    let show = |id: &str| restored.json(&format!("once show --processor mailer --id {id}"));
    assert_eq!((&show("done")["state"], &show("running")["state"]), (&json!("completed"), &json!("running")));
    let ran = restored.once("done", "", "echo twice").expect(0, &[]);
    assert_eq!(ran.stdout, "sent\n");
    let ran = restored.once("running", "--max-processing-time 2s", "echo taken over").expect(0, &[]);
    assert_eq!(ran.stdout, "taken over\n");
}

fn new_changes_follow(restored: &Restored) {
    restored.sql("update orders set amount = 1 where id = 3 or id = 4");
    restored.run(r#"queue push works work:3 {"n":8}"#).expect(0, &[]);
    restored.run(RUN).expect(0, &[]);
    for (feed, before) in [("chained", 12), ("states", 11), ("mails", 12), ("works", 7)] {
        let told = restored.handled(feed);
        assert_eq!(told.len(), before + 1, "{feed}: {told:?}");
        let last = told.last().unwrap();
        assert_eq!(
            last["after"],
            if feed == "works" { json!({"n": 8}) } else { json!({"id": 4, "customer": "ada", "amount": 1}) }
        );
    }
    assert_linked(restored);
    restored.run(RUN).expect(0, &[]);
    assert_eq!(restored.handled("states").len(), 12);
}

fn assert_counts(restored: &Restored, moment: usize) {
    for (feed, counts) in COUNTS {
        let told = restored.handled(feed);
        assert_eq!(told.len(), counts[moment], "{feed}: {told:#?}");
    }
}

fn assert_parked(restored: &Restored, expected: &Value) {
    let listed = restored.json("parked list");
    let short = |object: &Value| json!([object["feed"], object["key"], object["waiting"]]);
    let mut short: Vec<Value> = listed.as_array().unwrap().iter().map(short).collect();
    short.sort_by_key(Value::to_string);
    assert_eq!(&Value::from(short), expected, "{listed}");
}

/// Each change once, and those of an object in the order of their ids; rows that existed before come first.
fn assert_in_order(restored: &Restored, feed: &str) {
    let mut last: HashMap<String, u64> = HashMap::new();
    for change in restored.handled(feed).iter().filter(|change| change["op"] != "upsert") {
        let (key, id) = (change["key"].to_string(), change["id"].as_u64().unwrap());
        let before = last.insert(key, id);
        assert!(before.is_none_or(|before| before < id), "{feed}: {change} after {before:?}");
    }
}

/// Each change names the one of its object before it, where the store keeps chains.
fn assert_linked(restored: &Restored) {
    let told = restored.handled("chained");
    let mut last: HashMap<String, Value> = HashMap::new();
    for change in told.iter().filter(|_| told.iter().any(|change| !change["prev"].is_null())) {
        let before = last.insert(change["key"].to_string(), change["id"].clone()).unwrap_or_default();
        assert_eq!(change["prev"], before, "{change}");
    }
}

fn totals(restored: &Restored) -> Vec<(String, i64)> {
    let sums = restored.numbers(
        "select cast(case customer when 'ada' then 1 when 'bob' then 2 else 3 end as bigint), cast(amount as bigint) \
         from totals order by 1",
    );
    let name = |number: i64| ["", "ada", "bob", "cyd"][usize::try_from(number).unwrap()].to_owned();
    sums.into_iter().map(|(number, sum)| (name(number), sum)).collect()
}
