//! `seriatim once`, as real processes: many at once, killed with -9, told to stop.

mod edges;
mod steps;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seriatim::clock;

use crate::shop::{Ran, Shop, finish};
pub use steps::{
    a_caller_that_is_killed_leaves_a_claim_that_times_out, a_failed_attempt_is_given_back_at_once,
    a_program_does_the_work_between_start_and_complete,
    a_run_that_must_not_be_repeated_is_unknown_to_the_next_caller, an_attempt_that_beats_outlives_its_time,
    an_attempt_that_timed_out_no_longer_counts, of_many_callers_at_once_one_runs,
};

/// A folder, and the store whose ledger is used.
pub struct Place {
    shop: Shop,
    store: String,
}

impl Place {
    pub fn at(store: &str) -> Self {
        Place { shop: Shop::empty(), store: store.to_owned() }
    }

    fn once(&self, line: &str) -> Command {
        let mut command = self.shop.command(&format!("once {line}"));
        command.env("SERIATIM_STORE", &self.store).env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    /// `once run` of a shell script for a signal.
    fn script(&self, signal: &str, options: &str, script: &str) -> Command {
        let mut command = self.once(&format!("run --processor mailer --id {signal} {options} --"));
        command.args(["sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, signal: &str, options: &str, script: &str) -> Ran {
        finish(&mut self.script(signal, options, script))
    }

    fn of(&self, line: &str) -> Ran {
        finish(&mut self.once(line))
    }

    fn show(&self, signal: &str) -> serde_json::Value {
        let shown = self.of(&format!("show --processor mailer --id {signal} --json")).expect(0, &[]);
        serde_json::from_str(&shown.stdout).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.shop.path(name)
    }

    fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).map_or(0, |text| text.lines().count())
    }

    /// Returns when the file is there and a line is in it.
    fn waits_for(&self, name: &str) {
        let began = clock::now();
        while self.lines(name) == 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "no {name} after half a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn ran(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

pub fn of_a_hundred_processes_one_runs_and_all_print_what_it_printed(place: &Place) {
    let script = "echo ran >> runs; echo the result of $$";
    let children: Vec<Child> = (0..100)
        .map(|_| place.script("1", "--max-processing-time 120s --max-wait 120s", script).spawn().unwrap())
        .collect();
    let mut printed: Vec<String> =
        children.into_iter().map(|child| ran(child).expect(0, &[]).stdout).collect();
    assert_eq!(place.lines("runs"), 1);
    assert_eq!(printed.len(), 100);
    printed.dedup();
    assert!(printed.len() == 1 && printed[0].starts_with("the result of "), "{printed:?}");
}

pub fn a_killed_run_is_taken_over_by_one_after_its_time(place: &Place) {
    let limit = Duration::from_secs(2);
    let began = clock::now();
    let script = "echo $$ > child; exec sleep 100";
    let mut dead = place.script("1", "--max-processing-time 2s", script).spawn().unwrap();
    place.waits_for("child");
    dead.kill().unwrap();
    dead.wait().unwrap();
    let orphan: i32 = std::fs::read_to_string(place.file("child")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(orphan).unwrap(), Signal::KILL).unwrap();

    let script = "echo ran >> runs; echo $$";
    let options = "--max-processing-time 120s --max-wait 120s";
    let waiters: Vec<Child> = (0..20).map(|_| place.script("1", options, script).spawn().unwrap()).collect();
    place.waits_for("runs");
    let taken_over = began.elapsed();
    let mut printed: Vec<String> =
        waiters.into_iter().map(|child| ran(child).expect(0, &[]).stdout).collect();
    printed.dedup();
    assert_eq!((place.lines("runs"), printed.len()), (1, 1));
    assert!(taken_over > limit, "{taken_over:?}");
    assert_eq!(place.show("1")["attempt"], 2);
}

pub fn a_run_that_outlives_its_time_is_refused(place: &Place) {
    let script = "echo there > there; while [ ! -e go ]; do sleep 0.02; done; echo zombie";
    let zombie = place.script("1", "--max-processing-time 1s", script).spawn().unwrap();
    place.waits_for("there");
    assert_eq!(place.run("1", "", "echo successor").expect(0, &[]).stdout, "successor\n");
    std::fs::write(place.file("go"), "").unwrap();
    ran(zombie).expect(1, &["lost its claim"]);
    assert_eq!(place.run("1", "", "echo again").expect(0, &[]).stdout, "successor\n");
}

pub fn a_failed_command_passes_its_code_on_and_gives_its_claim_back(place: &Place) {
    place.run("1", "--max-processing-time 1h", "exit 42").expect(42, &[]);
    place
        .of("show --processor mailer --id 1")
        .expect(1, &["nothing is known about signal 1 of processor mailer"]);
    place.run("1", "--max-processing-time 1h", "kill -9 $$").expect(128 + 9, &[]);
    let mut missing = place.once("run --processor mailer --id 1 -- /no/such/command");
    finish(&mut missing).expect(127, &["/no/such/command cannot be run"]);
    assert_eq!(place.run("1", "", "echo now").expect(0, &[]).stdout, "now\n");
}

pub fn one_who_has_waited_long_enough_ends_with_75(place: &Place) {
    let script = "echo there > there; while [ ! -e go ]; do sleep 0.02; done; echo done";
    let running = place.script("1", "--max-processing-time 1h", script).spawn().unwrap();
    place.waits_for("there");
    place.run("1", "--max-wait 100ms", "echo no").expect(75, &["still being handled by attempt 1"]);
    place.run("1", "--max-wait 0s", "echo no").expect(75, &[]);
    assert_eq!(place.show("1")["state"], "running");
    place.of("forget --processor mailer --id 1").expect(1, &["is running", "--force"]);
    std::fs::write(place.file("go"), "").unwrap();
    assert_eq!(ran(running).expect(0, &[]).stdout, "done\n");
}

pub fn a_long_run_with_a_heartbeat_is_waited_for(place: &Place) {
    let script = "echo there > there; sleep 4; echo slow";
    let running = place.script("1", "--max-processing-time 2s --heartbeat", script).spawn().unwrap();
    place.waits_for("there");
    assert_eq!(place.run("1", "", "echo fast").expect(0, &[]).stdout, "slow\n");
    assert_eq!(ran(running).expect(0, &[]).stdout, "slow\n");
}

pub fn signals_are_passed_on_to_the_command(place: &Place) {
    let script = "trap 'echo told; exit 7' TERM; echo there > there; while :; do sleep 0.02; done";
    let running = place.script("1", "", script).spawn().unwrap();
    place.waits_for("there");
    send(&running, Signal::TERM);
    let told = ran(running).expect(7, &[]);
    assert_eq!(told.stdout, "told\n");
    assert_eq!(place.run("1", "", "echo next").expect(0, &[]).stdout, "next\n");
}

pub fn output_is_recorded_as_it_is_up_to_a_limit(place: &Place) {
    for _ in 0..2 {
        assert_eq!(place.run("empty", "", "true").expect(0, &[]).stdout, "");
        let printed = place.script("bytes", "", r"printf 'a\000\377b'").output().unwrap();
        assert_eq!((printed.status.code(), printed.stdout), (Some(0), b"a\0\xffb".to_vec()));
    }
    let long = "echo ran >> runs; printf 0123456789A";
    assert_eq!(place.run("long", "--max-output 10", long).expect(0, &["11 bytes"]).stdout, "0123456789A");
    let again = place.run("long", "--max-output 10", long);
    again.expect(1, &["has been handled, but its output has 11 bytes, and at most 10 are kept"]);
    assert_eq!(place.lines("runs"), 1);
}

pub fn what_is_remembered_is_shown_and_forgotten(place: &Place) {
    place.run("1", "--expires-after 1h", "echo one").expect(0, &[]);
    place.run("2", "--expires-after never", "echo two").expect(0, &[]);
    let shown = place.show("1");
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    for key in ["processor", "id", "state", "started_at", "completed_at", "expires_on", "attempt"] {
        assert!(keys.iter().any(|found| *found == key), "no {key} in {keys:?}");
    }
    assert_eq!((&shown["state"], &shown["attempt"]), (&"completed".into(), &1.into()));
    let time = |name: &str| shown[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let lasts = time("expires_on").duration_since(time("completed_at")).as_secs();
    assert!((3600..=3603).contains(&lasts), "{shown}");
    assert_eq!(place.show("2")["expires_on"], serde_json::Value::Null);
    place.of("show --processor mailer --id 1").expect(0, &["completed", "one"]);

    let listed = place.of("list --json").expect(0, &[]).stdout;
    assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&listed).unwrap().len(), 2);
    place.of("list --processor mailer --state completed").expect(0, &["processor", "completed"]);
    assert_eq!(place.of("list --processor other --json").expect(0, &[]).stdout, "[]\n");
    place.of("list --state compleet").expect(2, &["completed"]);

    place.of("forget --processor mailer --id 1").expect(0, &["forgotten"]);
    place.of("forget --processor mailer --id 1").expect(1, &["nothing is known"]);
    assert_eq!(place.run("1", "", "echo three").expect(0, &[]).stdout, "three\n");
}

pub fn an_expired_signal_runs_again(place: &Place) {
    place.run("1", "--expires-after 1ms", "echo one").expect(0, &[]);
    let began = clock::now();
    while place.show("1")["state"] != "expired" {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert_eq!(place.run("1", "", "echo two").expect(0, &[]).stdout, "two\n");
    assert_eq!(place.show("1")["attempt"], 2);
}

pub fn an_unknown_run_waits_for_somebody_to_resolve_it(place: &Place) {
    for (signal, how) in [("1", "--completed --output found"), ("2", "--rerun")] {
        let options = "--max-processing-time 200ms --on-timeout unknown";
        let there = format!("there-{signal}");
        let mut dead =
            place.script(signal, options, &format!("echo $$ > {there}; exec sleep 100")).spawn().unwrap();
        place.waits_for(&there);
        dead.kill().unwrap();
        dead.wait().unwrap();
        let orphan: i32 = std::fs::read_to_string(place.file(&there)).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(orphan).unwrap(), Signal::KILL).unwrap();
        place.run(signal, options, "echo no").expect(1, &["is unknown", "once resolve"]);
        assert_eq!(place.show(signal)["state"], "unknown");
        place.of(&format!("resolve --processor mailer --id {signal} {how}")).expect(0, &["resolved as"]);
        place
            .of(&format!("resolve --processor mailer --id {signal} {how}"))
            .expect(1, &[if signal == "1" { "is completed, not unknown" } else { "nothing is known" }]);
    }
    assert_eq!(place.run("1", "", "echo no").expect(0, &[]).stdout, "found");
    assert_eq!(place.run("2", "", "echo again").expect(0, &[]).stdout, "again\n");
}

/// Makes a test of each of these for one kind of store.
macro_rules! on_each_store {
    ($place:expr; $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                let place = $place;
                super::$test(&place.0);
            }
        )+
    };
}

macro_rules! all_on {
    ($place:expr) => {
        on_each_store! { $place;
            of_a_hundred_processes_one_runs_and_all_print_what_it_printed,
            a_killed_run_is_taken_over_by_one_after_its_time,
            a_run_that_outlives_its_time_is_refused,
            a_failed_command_passes_its_code_on_and_gives_its_claim_back,
            one_who_has_waited_long_enough_ends_with_75,
            a_long_run_with_a_heartbeat_is_waited_for,
            signals_are_passed_on_to_the_command,
            output_is_recorded_as_it_is_up_to_a_limit,
            what_is_remembered_is_shown_and_forgotten,
            an_expired_signal_runs_again,
            an_unknown_run_waits_for_somebody_to_resolve_it,
            a_program_does_the_work_between_start_and_complete,
            an_attempt_that_timed_out_no_longer_counts,
            an_attempt_that_beats_outlives_its_time,
            a_failed_attempt_is_given_back_at_once,
            of_many_callers_at_once_one_runs,
            a_caller_that_is_killed_leaves_a_claim_that_times_out,
            a_run_that_must_not_be_repeated_is_unknown_to_the_next_caller,
        }
    };
}

mod sqlite {
    use super::Place;

    all_on!((Place::at("sqlite:seriatim.db"),));

    #[test]
    fn a_config_file_without_feeds_is_enough() {
        let place = Place::at("");
        place.shop.configure("store = \"sqlite:other.db\"\n");
        place.run("1", "", "echo one").expect(0, &[]);
        assert!(place.file("other.db").exists());
    }

    #[test]
    fn looking_makes_nothing() {
        let place = Place::at("sqlite:seriatim.db");
        assert_eq!(place.of("list --json").expect(0, &[]).stdout, "[]\n");
        place.of("show --processor a --id 1").expect(1, &["nothing is known"]);
        assert!(!place.file("seriatim.db").exists());
        place.of("init --print sql").expect(0, &["create table seriatim_once"]);
        assert!(!place.file("seriatim.db").exists());
        place.of("init").expect(0, &["the ledger is there"]);
        assert!(place.file("seriatim.db").exists());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let place = Place::at("");
        place.of("list").expect(2, &["there is no config file", "SERIATIM_STORE"]);
        let place = Place::at("sqlite:seriatim.db");
        place.of("run --processor a --id 1 --max-wait soon -- true").expect(2, &["soon"]);
        place.of("run --processor a --id 1").expect(2, &["COMMAND"]);
        place.of("resolve --processor a --id 1").expect(2, &["--completed", "--rerun"]);
        place.of("init --print terraform").expect(2, &["--print sql"]);
        let too_long = "x".repeat(1025);
        place
            .of(&format!("run --processor a --id {too_long} -- true"))
            .expect(2, &["longer than 1024 bytes"]);
        Place::at("oracle:x").of("list").expect(2, &["SERIATIM_STORE", "oracle"]);
    }
}

mod postgres {
    use super::{Place, ran};
    use seriatim_testkit::servers::Postgres;

    /// A database of its own, in which nobody has been.
    fn new() -> (Place,) {
        let server = Postgres::shared();
        (Place::at(&server.url_of(&server.database().unwrap())),)
    }

    all_on!(new());

    #[test]
    fn looking_makes_nothing() {
        let (place,) = new();
        assert_eq!(place.of("list --json").expect(0, &[]).stdout, "[]\n");
        place.of("show --processor a --id 1").expect(1, &["nothing is known"]);
        place.of("init --print sql").expect(0, &["create schema", "create table seriatim.once"]);
        place.of("init --print terraform").expect(2, &["--print sql"]);
        place.of("init").expect(0, &["the ledger is there"]);
        let printed = place.of("init --print sql").expect(0, &[]).stdout;
        assert_eq!(printed.trim(), "", "nothing is left to be made");
    }

    #[test]
    fn a_server_that_is_away_is_waited_for() {
        let server = Postgres::start().unwrap();
        let place = Place::at(&server.url_of(&server.database().unwrap()));
        server.stop().unwrap();
        place.run("1", "--max-wait 0s", "echo no").expect(1, &["connecting to"]);
        let waiting = place.script("1", "--max-wait 120s", "echo now").spawn().unwrap();
        server.start_again().unwrap();
        assert_eq!(ran(waiting).expect(0, &[]).stdout, "now\n");
    }
}

mod redis {
    use seriatim_testkit::servers::Redis;

    use super::*;

    fn place() -> (Place, Redis) {
        let server = Redis::start().unwrap();
        (Place::at(&server.url()), server)
    }

    all_on!(place());

    #[test]
    fn nothing_has_to_be_made() {
        let (place, _server) = place();
        place.of("list --json").expect(0, &["[]"]);
        place.of("init --print sql").expect(2, &["nothing has to be made in Redis"]);
    }
}

#[cfg(feature = "dynamodb")]
mod dynamodb {
    use std::sync::Arc;

    use super::Place;
    use crate::dynamodb::table;
    use seriatim_testkit::servers::DynamoDb;

    fn local() -> (Place, Arc<DynamoDb>) {
        let (url, server) = table();
        (Place::at(&url), server)
    }

    all_on!(local());

    #[test]
    fn what_makes_the_table_is_printed() {
        // Nothing is connected to, so nobody needs credentials.
        let place = Place::at("dynamodb://signals?region=eu-west-1");
        place.of("init --print terraform").expect(0, &["aws_dynamodb_table", "signals"]);
        place.of("init --print cloudformation").expect(0, &["AWS::DynamoDB::Table", "signals"]);
    }
}

#[cfg(not(feature = "dynamodb"))]
#[test]
fn a_build_without_dynamodb_says_so() {
    Place::at("dynamodb://signals").of("list").expect(2, &["--features dynamodb"]);
}
