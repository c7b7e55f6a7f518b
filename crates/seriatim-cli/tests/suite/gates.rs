//! `seriatim gate`: JSON lines in order and once, whoever delivers them how often.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use seriatim_testkit::servers::{Postgres, Redis};

use crate::shop::{Ran, Shop};

struct Place {
    shop: Shop,
    store: String,
}

impl Place {
    fn at(store: &str) -> Self {
        Place { shop: Shop::empty(), store: store.to_owned() }
    }

    fn begin(&self, line: &str) -> Child {
        let mut command = self.shop.command(&format!("gate {line}"));
        command.env("SERIATIM_STORE", &self.store);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sends lines through the gate, to their end.
    fn through(&self, line: &str, input: &str) -> Ran {
        let mut child = self.begin(line);
        // One that has ended early reads no more.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        child.wait_with_output().unwrap().into()
    }
}

fn event(object: &str, id: u64, prev: Option<u64>) -> String {
    let prev = prev.map_or("null".to_owned(), |prev| prev.to_string());
    format!("{{\"object\":\"{object}\",\"id\":{id},\"prev\":{prev}}}\n")
}

fn events_come_out_in_order_and_once(place: &Place) {
    let (a, b) = ([event("a", 1, None), event("a", 4, Some(1)), event("a", 9, Some(4))], event("b", 2, None));
    let delivered = format!("{}{}{b}{}{b}{}", a[2], a[2], a[0], a[0]);
    let passed = place.through("partner", &delivered).expect(0, &["events held: 1"]);
    assert_eq!(passed.stdout, format!("{b}{}", a[0]));
    // Another process, later: what was held is known.
    let passed = place.through("partner", &format!("{}{}{}", a[0], a[1], a[2])).expect(0, &[]);
    assert_eq!(passed.stdout, format!("{}{}", a[1], a[2]));
    assert_eq!(place.through("other", &a[0]).expect(0, &[]).stdout, a[0], "another gate");
}

#[test]
fn events_come_out_in_order_and_once_with_the_state_in_sqlite() {
    events_come_out_in_order_and_once(&Place::at("sqlite:seriatim.db"));
}

#[test]
fn events_come_out_in_order_and_once_with_the_state_in_postgresql() {
    let server = Postgres::shared();
    events_come_out_in_order_and_once(&Place::at(&server.url_of(&server.database().unwrap())));
}

#[test]
fn events_come_out_in_order_and_once_with_the_state_in_redis() {
    let server = Redis::start().unwrap();
    events_come_out_in_order_and_once(&Place::at(&server.url()));
}

#[test]
fn a_line_is_let_through_while_the_input_goes_on() {
    let place = Place::at("sqlite:seriatim.db");
    let mut child = place.begin("partner --wait 100ms");
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    input.write_all(event("a", 1, None).as_bytes()).unwrap();
    assert_eq!(format!("{}\n", output.next().unwrap().unwrap()), event("a", 1, None));
    input.write_all(event("a", 3, Some(2)).as_bytes()).unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = errors.next().unwrap().unwrap();
    assert!(told.contains("event 2 of a has been missing"), "{told}");
    // Killed here, it has the early event; the next one goes on.
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = place.through("partner", &event("a", 2, Some(1))).expect(0, &[]);
    assert_eq!(rest.stdout, format!("{}{}", event("a", 2, Some(1)), event("a", 3, Some(2))));
}

#[test]
fn a_gate_that_cannot_answer_says_why_and_takes_nothing() {
    let place = Place::at("sqlite:seriatim.db");
    let early = format!("{}{}", event("a", 3, Some(2)), event("b", 3, Some(2)));
    place.through("partner --hold 1", &early).expect(1, &["1 events wait", "event 3 of b was not taken"]);
    place.through("partner", "tea\n").expect(1, &["no event of a chain"]);
    let forked = format!("{}{}", event("c", 2, None), event("c", 3, None));
    place.through("partner", &forked).expect(1, &["forked"]);
    place.through("", "").expect(0, &[]);
    Place::at("").through("partner", "").expect(2, &["there is no config file"]);
}

#[test]
fn the_sql_for_postgresql_is_made_or_printed() {
    let server = Postgres::shared();
    let place = Place::at(&server.url_of(&server.database().unwrap()));
    place
        .through("--print", "")
        .expect(0, &["create schema", "create table seriatim.gate", "seriatim.gate_admit"]);
    place.through("partner --init", "").expect(0, &["the gate partner is there"]);
    assert_eq!(place.through("--print", "").expect(0, &[]).stdout.trim(), "");
    Place::at("sqlite:seriatim.db").through("--print", "").expect(2, &["no SQL to print"]);
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_store_that_keeps_no_gates_says_so() {
    let place = Place::at("dynamodb://signals?endpoint=http://127.0.0.1:1");
    place.through("partner", "").expect(1, &["DynamoDB keeps no gates", "SQLite, PostgreSQL or Redis"]);
}
