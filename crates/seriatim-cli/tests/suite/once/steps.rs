//! `once start`, `beat`, `complete` and `fail`, each a process of its own.

use std::io::Write;

use serde_json::Value;

use super::*;

impl Place {
    fn starting(&self, signal: &str, options: &str) -> Command {
        let mut command = self.once(&format!("start --processor mailer --id {signal} --json {options}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `once start`, and what it printed.
    fn start(&self, signal: &str, options: &str, code: i32) -> Value {
        let started = finish(&mut self.starting(signal, options)).expect(code, &[]);
        assert_eq!(started.stdout.lines().count(), 1, "{}", started.stdout);
        serde_json::from_str(&started.stdout).unwrap()
    }

    /// An attempt that may run.
    fn attempt(&self, signal: &str, options: &str) -> String {
        let started = self.start(signal, options, 0);
        assert_eq!(started["state"], "run", "{started}");
        started["attempt"].as_str().unwrap().to_owned()
    }

    fn step(&self, verb: &str, signal: &str, attempt: &str) -> Ran {
        self.of(&format!("{verb} --processor mailer --id {signal} --attempt {attempt}"))
    }
}

pub fn a_program_does_the_work_between_start_and_complete(place: &Place) {
    let attempt = place.attempt("1", "--max-processing-time 1h");
    assert_eq!(place.start("1", "--max-wait 0s", 75), serde_json::json!({"state": "running"}));
    assert_eq!(place.show("1")["state"], "running");
    let result = r#"{"sent":123456789012345678901234567890}"#;
    place.step("complete", "1", &format!("{attempt} --result {result}")).expect(0, &[]);
    let said = finish(&mut place.starting("1", "")).expect(0, &[]).stdout;
    assert_eq!(said, format!("{{\"state\":\"completed\",\"result\":{result}}}\n"));
    assert_eq!(place.run("1", "", "echo no").expect(0, &[]).stdout, result, "`once run` knows it too");
    place.step("complete", "1", &attempt).expect(0, &[]);
    place.step("fail", "1", &attempt).expect(1, &["has completed"]);
    place.step("complete", "1", "another").expect(1, &["attempt another no longer counts"]);
    place.run("2", "", "echo printed").expect(0, &[]);
    assert_eq!(place.start("2", "", 0), serde_json::json!({"state": "completed", "result": "printed\n"}));
}

pub fn an_attempt_that_timed_out_no_longer_counts(place: &Place) {
    let old = place.attempt("1", "--max-processing-time 300ms");
    let new = place.attempt("1", "--max-processing-time 1h --max-wait 60s");
    assert_ne!(old, new);
    for verb in ["beat", "complete", "fail"] {
        place.step(verb, "1", &old).expect(1, &["no longer counts", "--max-processing-time"]);
    }
    place.step("complete", "1", &format!("{new} --result 7")).expect(0, &[]);
    assert_eq!(place.start("1", "", 0), serde_json::json!({"state": "completed", "result": 7}));
}

pub fn an_attempt_that_beats_outlives_its_time(place: &Place) {
    let limit = Duration::from_secs(3);
    let attempt = place.attempt("1", "--max-processing-time 3s");
    let began = clock::now();
    while began.elapsed() < limit * 2 {
        place.step("beat", "1", &attempt).expect(0, &[]);
        // A store under load may not even answer.
        let other = finish(&mut place.starting("1", "--max-wait 0s"));
        assert!(other.code != 0 && !other.stdout.contains("attempt"), "{other:?}");
    }
    place.step("complete", "1", &attempt).expect(0, &[]);
}

pub fn a_failed_attempt_is_given_back_at_once(place: &Place) {
    let attempt = place.attempt("1", "--max-processing-time 1h");
    place.step("fail", "1", &attempt).expect(0, &[]);
    place.step("fail", "1", &attempt).expect(1, &["no longer counts"]);
    let next = place.attempt("1", "--max-processing-time 1h --max-wait 0s");
    assert_ne!(attempt, next);
}

pub fn of_many_callers_at_once_one_runs(place: &Place) {
    place.attempt("0", "");
    let options = "--max-processing-time 1h --max-wait 2s";
    let callers: Vec<Child> = (0..12).map(|_| place.starting("1", options).spawn().unwrap()).collect();
    let ended: Vec<Ran> = callers.into_iter().map(ran).collect();
    let (ran, others): (Vec<Ran>, Vec<Ran>) = ended.into_iter().partition(|ran| ran.code == 0);
    assert_eq!(ran.len(), 1, "{ran:?}");
    assert!(ran[0].stdout.starts_with(r#"{"state":"run","attempt":""#), "{ran:?}");
    assert!(others.iter().all(|other| !other.stdout.contains("attempt")), "{others:?}");
}

pub fn a_caller_that_is_killed_leaves_a_claim_that_times_out(place: &Place) {
    for _ in 0..3 {
        let mut killed = place.starting("1", "--max-processing-time 300ms").spawn().unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    let attempt = place.attempt("1", "--max-wait 60s");
    place.step("complete", "1", &attempt).expect(0, &[]);
}

pub fn a_run_that_must_not_be_repeated_is_unknown_to_the_next_caller(place: &Place) {
    let options = "--max-processing-time 200ms --on-timeout unknown";
    let attempt = place.attempt("1", options);
    assert_eq!(place.start("1", options, 1), serde_json::json!({"state": "unknown"}));
    // Whoever ran it may still know.
    place.step("complete", "1", &attempt).expect(0, &[]);
    assert_eq!(place.start("1", options, 0)["state"], "completed");
}

#[test]
fn a_result_is_json_and_may_come_from_the_standard_input() {
    let place = Place::at("sqlite:seriatim.db");
    let attempt = place.attempt("1", "");
    place.step("complete", "1", &format!("{attempt} --result tea")).expect(2, &["--result is not JSON"]);
    let line = format!("complete --processor mailer --id 1 --attempt {attempt} --result -");
    let mut piped = place.once(&line);
    let mut child = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\n  \"long\": \"text with  spaces\"\n}\n").unwrap();
    ran(child).expect(0, &[]);
    let said = finish(&mut place.starting("1", "")).expect(0, &[]).stdout;
    assert_eq!(said, "{\"state\":\"completed\",\"result\":{\"long\":\"text with  spaces\"}}\n");
}

#[test]
fn an_attempt_that_nobody_learns_of_is_given_back() {
    let place = Place::at("sqlite:seriatim.db");
    place.of("init").expect(0, &[]);
    let mut deaf = place.starting("1", "--max-processing-time 1h");
    let mut child = deaf.spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    place.attempt("1", "--max-wait 0s");
}

#[test]
fn people_get_words() {
    let place = Place::at("sqlite:seriatim.db");
    let said = place.of("start --processor mailer --id 1").expect(0, &[]).stdout;
    let attempt = said.strip_prefix("run ").unwrap().trim();
    place.of("start --processor mailer --id 1 --max-wait 0s").expect(75, &["still being handled"]);
    place.step("complete", "1", &format!("{attempt} --result {{\"a\":1}}")).expect(0, &[]);
    assert_eq!(place.of("start --processor mailer --id 1").expect(0, &[]).stdout, "completed {\"a\":1}\n");
}
