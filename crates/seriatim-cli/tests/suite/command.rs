//! Handlers that are commands: real children that die, hang, babble and close what they should not.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::handling::{Running, eventually, lines, parked, program, run_once, shop_with};
use crate::shop::Shop;

/// A handler in Python that notes each change it gets and then does `body`, which answers.
fn handler(shop: &Shop, body: &str) {
    let body = body.trim_matches('\n').replace('\n', "\n    ");
    let script = format!(
        r#"
import json, os, signal, subprocess, sys, time
def note(file, text):
    with open(file, "a") as out: out.write(str(text) + "\n")
def first(what):
    if os.path.exists(what): return False
    note(what, ""); return True
def say(text): print(text, flush=True)
def ok(): say('{{"ok":true}}')
note("pids", os.getpid())
for line in sys.stdin:
    change = json.loads(line)
    id, key = change["id"], change["key"]["id"]
    note("handled", f"{{key}}:{{id}}:{{(change['after'] or {{}}).get('amount')}}")
    {body}
note("ends", "stdin was closed")
"#
    );
    fs::write(shop.path("handle.py"), script).unwrap();
}

const COMMAND: &str = "command = [\"python3\", \"handle.py\"]\n";

fn shop(settings: &str, body: &str) -> Shop {
    let shop = shop_with(&format!("{COMMAND}{settings}"));
    handler(&shop, body);
    shop
}

/// The keys of the handled changes, in order.
fn keys(shop: &Shop) -> Vec<String> {
    lines(shop, "handled").iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_all_were_handled(shop: &Shop) {
    let mut keys = keys(shop);
    keys.sort();
    keys.dedup();
    assert_eq!(keys, ["1", "2", "3"], "{:?}", lines(shop, "handled"));
}

#[test]
fn a_command_gets_each_change_once_and_its_words_are_in_the_log() {
    let shop = shop("", "print('working on', key, file=sys.stderr)\nok()");
    let ran = run_once(&shop).expect(0, &["at-least-once", "working on 2", "feed=totals"]);
    assert!(!ran.stderr.contains("failed"), "{ran:?}");
    assert_eq!(lines(&shop, "handled").len(), 3);
    shop.sql("update orders set amount = 11 where id = 1");
    run_once(&shop).expect(0, &[]);
    assert_eq!(lines(&shop, "handled").len(), 4);
    assert_eq!(lines(&shop, "ends").len(), 2, "each child found its input closed, and ended by itself");
}

#[test]
fn the_next_change_of_an_object_is_sent_when_the_one_before_is_answered() {
    let shop = shop(
        "",
        "say('{\"error\":\"not now\"}') if key == 1 and change['after']['amount'] == 11 and first('failed') else ok()",
    );
    shop.run("watch").expect(0, &[]);
    shop.sql("update orders set amount = amount + 1; update orders set amount = amount + 1;");
    run_once(&shop).expect(0, &["not now"]);
    let handled = lines(&shop, "handled");
    let amounts: Vec<&str> = handled
        .iter()
        .filter(|line| line.starts_with("1:"))
        .map(|line| line.rsplit(':').next().unwrap())
        .collect();
    assert_eq!(amounts, ["10", "11", "11", "12"]);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn a_command_killed_in_the_middle_is_started_again_and_nothing_is_lost() {
    let shop = shop("", "os.kill(os.getpid(), 9) if key == 2 and first('died') else ok()");
    run_once(&shop).expect(0, &["ended with signal: 9 (SIGKILL) before it answered change"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 0);
    let seconds = lines(&shop, "handled");
    let seconds: Vec<&String> = seconds.iter().filter(|line| line.starts_with("2:")).collect();
    assert!(seconds.len() == 2 && seconds[0] == seconds[1], "the same id both times: {seconds:?}");
}

#[test]
fn a_change_that_kills_every_command_is_parked_and_no_other() {
    let shop = shop("", "sys.exit('cannot bear 2') if key == 2 else ok()");
    run_once(&shop).expect(1, &["ended with exit status: 1", "its last words: cannot bear 2"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 1);
}

#[test]
fn a_command_that_reads_ahead_and_dies_costs_only_the_change_it_died_of() {
    let shop = shop_with(COMMAND);
    shop.reconfigure("attempts = 3", "attempts = 1");
    shop.reconfigure("partitions = 2", "partitions = 1");
    let script = r#"
import json, os
while lines := os.read(0, 65536).splitlines():
    changes = [json.loads(line) for line in lines]
    assert all(change["key"]["id"] != 3 for change in changes), "cannot bear 3"
    os.write(1, b'{"ok":true}\n' * len(changes))
"#;
    fs::write(shop.path("handle.py"), script).unwrap();
    run_once(&shop).expect(1, &["AssertionError: cannot bear 3"]);
    let status = shop.run("status").expect(0, &[r#"parked {"id":3}"#]).stdout;
    assert_eq!(parked(&shop), 1, "{status}");
}

#[test]
fn a_command_that_hangs_is_killed_with_everything_it_started() {
    let body = r#"
if key == 2:
    note("grandchildren", subprocess.Popen(["sleep", "1000"]).pid)
    time.sleep(1000)
ok()"#;
    let shop = shop("timeout = \"1s\"", body);
    run_once(&shop).expect(1, &["did not answer change", "within 1s and was killed"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 1);
    let grandchildren = lines(&shop, "grandchildren");
    assert!(!grandchildren.is_empty());
    for pid in grandchildren {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        eventually("the grandchild is gone", || is_gone(pid), String::new);
    }
}

/// Whether a process has ended; one that nobody buries in a container counts too.
fn is_gone(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || status.contains(") Z ")
}

#[test]
fn an_answer_that_comes_too_late_does_not_count() {
    let shop = shop("timeout = \"1s\"", "if key == 2 and first('late'): time.sleep(1000)\nok()");
    run_once(&shop).expect(0, &["did not answer change"]);
    assert_eq!(parked(&shop), 0);
    assert_eq!(keys(&shop).iter().filter(|key| *key == "2").count(), 2);
}

#[test]
fn an_answer_that_came_while_the_host_was_halted_counts() {
    let body = r#"
if key == 2:
    host = os.getppid()
    def state(thread):
        try: return open(f"/proc/{host}/task/{thread}/stat").read().rpartition(")")[2].split()[0]
        except OSError: return "gone"
    os.kill(host, signal.SIGSTOP)
    while any(state(thread) not in ("T", "gone") for thread in os.listdir(f"/proc/{host}/task")): time.sleep(0.01)
    ok()
    time.sleep(6)
    os.kill(host, signal.SIGCONT)
else: ok()"#;
    let shop = shop("timeout = \"5s\"", body);
    run_once(&shop).expect(0, &[]);
    assert_eq!(keys(&shop).len(), 3, "{:?}", lines(&shop, "handled"));
}

#[test]
fn what_is_no_answer_fails_the_change_it_answers() {
    let shop = shop("", "say('hello there') if key == 2 else ok()");
    run_once(&shop).expect(1, &[r#"answered "hello there" to change"#, "belongs on its standard error"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 1);
}

#[test]
fn a_command_that_answers_twice_is_found_out() {
    let shop = shop("concurrency = 1", "ok()\nif key == 2: ok()");
    let running = Running::start(&shop, "run");
    running.says("although nothing was unanswered");
    running.stop().expect(0, &[]);
    assert_all_were_handled(&shop);
}

#[test]
fn an_answer_that_names_another_change_does_not_count() {
    let body = "say(json.dumps({'ok': True, 'id': 4711 if key == 2 else id}))";
    let shop = shop("", body);
    run_once(&shop).expect(1, &["answered for change 4711 where the answer for change"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 1);
}

#[test]
fn a_command_that_closes_its_output_has_ended() {
    let body = "if key == 2 and first('closed'):\n    os.close(1); time.sleep(1000)\nok()";
    let shop = shop("", body);
    run_once(&shop).expect(0, &["closed its standard output before it answered change"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn an_error_is_tried_again_then_parked_and_one_without_hope_is_parked_at_once() {
    let body = r#"
if key == 2: say('{"error":"no stock"}')
elif key == 3: say('{"error":"no such thing","retry":false}')
else: ok()"#;
    let shop = shop("", body);
    run_once(&shop).expect(1, &["no stock", "no such thing"]);
    assert_eq!(parked(&shop), 2);
    let count = |key: &str| keys(&shop).iter().filter(|handled| *handled == key).count();
    assert_eq!((count("1"), count("2"), count("3")), (1, 3, 1));
}

#[test]
fn a_command_can_say_that_what_it_needs_is_not_there() {
    let body = r#"
if os.path.exists("up"): ok()
else: say('{"error":"the mail server is down","wait":true}')"#;
    let shop = shop("", body);
    let running = Running::start(&shop, "run");
    eventually("many attempts", || lines(&shop, "handled").len() > 20, || running.log());
    assert_eq!(parked(&shop), 0);
    fs::write(shop.path("up"), "").unwrap();
    eventually("all is handled", || lag(&shop) == Some(0), || running.log());
    running.stop().expect(0, &["the mail server is down"]);
    assert_all_were_handled(&shop);
    assert_eq!(parked(&shop), 0);
}

/// How many changes are not handled yet.
fn lag(shop: &Shop) -> Option<u64> {
    let status = shop.run("status --json").expect(0, &[]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let partitions = status["feeds"][0]["partitions"].as_array()?;
    partitions.iter().map(|partition| partition["lag"]["changes"].as_u64()).sum()
}

#[test]
fn a_program_that_is_not_there_is_waited_for() {
    let shop = shop_with("command = [\"./handle.sh\"]");
    shop.run("check").expect(1, &["there is no file", "handle.sh", "feed.totals.handler.command"]);
    let running = Running::start(&shop, "run");
    running.says("cannot be started: there is no file");
    let script = "#!/bin/sh\nwhile read -r line; do echo \"$line\" >> handled; echo '{\"ok\":true}'; done\n";
    fs::write(shop.path("handle.sh"), script).unwrap();
    running.says("is not executable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(shop.path("handle.sh"), mode).unwrap();
    eventually("all is handled", || lines(&shop, "handled").len() == 3, || running.log());
    running.stop().expect(0, &[]);
    program(&shop, "check").output().map(|output| assert!(output.status.success(), "{output:?}")).unwrap();
    assert_eq!(parked(&shop), 0);
}

/// Waits until the log has these words several times: each change was tried.
#[track_caller]
fn says_often(running: &Running, words: &str) {
    eventually(words, || running.log().matches(words).count() >= 6, || running.log());
}

#[test]
fn a_program_that_ends_before_it_reads_blames_nobody() {
    let shop = shop("", "ok()");
    let script = fs::read_to_string(shop.path("handle.py")).unwrap();
    shop.reconfigure("attempts = 3", "attempts = 1");
    fs::write(shop.path("handle.py"), "import no_such_module").unwrap();
    let running = Running::start(&shop, "run");
    says_often(
        &running,
        "ended with exit status: 1 before it read anything; its last words: ModuleNotFoundError",
    );
    assert_eq!(parked(&shop), 0);
    fs::write(shop.path("handle.py"), script).unwrap();
    eventually("all is handled", || lines(&shop, "handled").len() == 3, || running.log());
    running.stop().expect(0, &[]);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn a_program_that_takes_too_long_to_begin_blames_nobody() {
    let shop = shop("timeout = \"1s\"", "ok()");
    let script = fs::read_to_string(shop.path("handle.py")).unwrap();
    shop.reconfigure("attempts = 3", "attempts = 1");
    fs::write(shop.path("handle.py"), "import time\ntime.sleep(1000)").unwrap();
    let running = Running::start(&shop, "run");
    says_often(&running, "read nothing within 1s and was killed");
    assert_eq!(parked(&shop), 0);
    fs::write(shop.path("handle.py"), script).unwrap();
    eventually("all is handled", || lines(&shop, "handled").len() >= 3, || running.log());
    running.stop().expect(0, &[]);
    assert_eq!(parked(&shop), 0);
}

#[test]
fn several_processes_share_the_work() {
    // The first one waits for the second, which is there to be started when there is more to do.
    let shop = shop("processes = 2", "while len(open('pids').readlines()) < 2: time.sleep(0.01)\nok()");
    shop.sql("with recursive n (i) as (select 1 union all select i + 1 from n where i < 20) insert into orders (amount) select i from n");
    run_once(&shop).expect(0, &[]);
    assert_eq!((lines(&shop, "pids").len(), lines(&shop, "handled").len()), (2, 23));
}

#[test]
fn a_command_that_does_not_end_when_it_should_is_killed() {
    let shop =
        shop("", "ok()\nif len(open('handled').readlines()) == 3: note('stays', ''); time.sleep(1000)");
    let running = Running::start(&shop, "run");
    eventually("all is handled", || lines(&shop, "stays").len() == 1, || running.log());
    running.stop().expect(0, &["did not end within 5s and was killed"]);
    let pid = Pid::from_raw(lines(&shop, "pids")[0].parse().unwrap()).unwrap();
    assert!(is_gone(pid));
}

#[test]
fn a_handler_that_hangs_does_not_keep_a_host_from_ending() {
    let shop = shop("", "note('hangs', ''); time.sleep(1000)");
    shop.reconfigure("[source.shop]", "[lease]\nclose = \"1s\"\n[source.shop]");
    let running = Running::start(&shop, "run");
    eventually("a handler hangs", || !lines(&shop, "hangs").is_empty(), || running.log());
    running.stop().expect(0, &["its handler did not finish in time and was cut off", "after its expiry"]);
    assert!(shop.run("status --json").expect(0, &[]).stdout.contains(r#""lag":{"changes":"#));
}

#[test]
fn commands_and_webhooks_can_be_measured() {
    let shop = Shop::empty();
    let output = program(&shop, "bench command-echo webhook-echo --changes 1000 --json").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        report["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["command-echo", "webhook-echo"]);
}

#[test]
fn postgresql_can_be_measured_without_a_url() {
    let shop = Shop::empty();
    let names = ["journal-drain-postgres", "capture-journal-postgres-1000", "latency-journal-postgres"];
    let output =
        program(&shop, &format!("bench {} --changes 4000 --json", names.join(" "))).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    assert!(rows[2]["p50_ms"].as_f64().unwrap() <= rows[2]["p99_ms"].as_f64().unwrap(), "{report}");
}

#[test]
fn what_was_answered_before_a_slow_change_of_its_batch_does_not_come_again() {
    let slow = "if key == 30 and first('slow'): time.sleep(1000)\nok()";
    let shop = shop("batch = 50\nconcurrency = 1", slow);
    shop.reconfigure("partitions = 2", "partitions = 1");
    let more = "with recursive more (n) as (select 1 union all select n + 1 from more where n < 97) \
                insert into orders (amount) select n from more";
    shop.sql(more);
    let running = Running::start(&shop, "run");
    eventually("it comes to the slow one", || keys(&shop).iter().any(|key| key == "30"), || running.log());
    let told = || -> bool {
        let sql = "select coalesce(max(done_above), '') <> '' from seriatim_lease";
        shop.connect().query_row(sql, (), |row| row.get(0)).unwrap()
    };
    eventually("a checkpoint tells of those before it", told, || running.log());
    drop(running);
    run_once(&shop).expect(0, &[]);
    let mut handled = keys(&shop);
    let again: Vec<&String> =
        handled.iter().skip(30).filter(|key| key.parse::<u32>().unwrap() < 30).collect();
    assert!(again.is_empty(), "{again:?}");
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 100);
}

#[test]
fn a_child_that_does_not_look_at_its_input_dies_with_its_host() {
    // What it starts dies, too.
    let busy = "ok()\nsubprocess.Popen(['sleep', '1000'])\nwhile True: note('busy', ''); time.sleep(0.01)";
    let shop = shop("", busy);
    let running = Running::start(&shop, "run");
    eventually("it is busy", || !lines(&shop, "busy").is_empty(), || running.log());
    let child: i32 = lines(&shop, "pids")[0].parse().unwrap();
    let lives = |child| test_kill_process(Pid::from_raw(child).unwrap()).is_ok();
    assert!(lives(child));
    drop(running);
    eventually("the child is dead", || !lives(child), || "it works on".to_owned());
    let group = format!("-g {child}");
    let left = || std::process::Command::new("pgrep").args(group.split(' ')).output().unwrap().stdout;
    eventually(
        "all that it started is",
        || left().is_empty(),
        || String::from_utf8_lossy(&left()).into_owned(),
    );
}

/// The processes that a process has started.
fn children_of(pid: u32) -> Vec<i32> {
    let found = std::process::Command::new("pgrep").args(["-P", &pid.to_string()]).output().unwrap().stdout;
    String::from_utf8(found).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_child_is_killed_with_its_host_by_the_system_itself() {
    let busy = "ok()\nwhile True: note('busy', time.time()); time.sleep(0.001)";
    let shop = shop("", busy);
    let mut running = Running::start(&shop, "run");
    eventually("it is busy", || !lines(&shop, "busy").is_empty(), || running.log());
    let child: i32 = lines(&shop, "pids")[0].parse().unwrap();
    // Nobody is left who could do it in the host's place.
    for guard in children_of(running.id()).into_iter().filter(|pid| *pid != child) {
        kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    }
    running.kill();
    let died = seriatim::clock::now();
    eventually("the child is dead", || is_gone(Pid::from_raw(child).unwrap()), || "it works on".to_owned());
    assert!(died.elapsed() < Duration::from_millis(100), "{:?}", died.elapsed());
}
