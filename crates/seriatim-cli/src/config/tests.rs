//! What a config file means, and what is said about one that is wrong.

mod window;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use seriatim::handler::{Retry, Then};
use seriatim::source::Start;

use super::*;
use crate::error::Exit;

const SMALLEST: &str = r#"
store = "sqlite:seriatim.db"
[source.shop]
url = "sqlite:shop.db"
[feed.totals]
source = "shop"
capture = "journal"
table = "orders"
[feed.totals.handler]
stdout = true
"#;

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Config> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
    Config::parse(Path::new("/etc/app/seriatim.toml"), text, &Environment::of(variables))
}

fn totals(text: &str) -> FeedConfig {
    read_with(text, &[]).unwrap().feed("totals").unwrap().clone()
}

/// What is said about the smallest config with `old` replaced by `new`: the sentence and the help.
fn said(old: &str, new: &str) -> String {
    assert!(SMALLEST.contains(old), "{old}");
    let error = read_with(&SMALLEST.replacen(old, new, 1), &[]).unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    format!("{} | {}", error.sentence(), error.remedy().unwrap_or("-"))
}

#[track_caller]
fn assert_said(old: &str, new: &str, parts: &[&str]) {
    let said = said(old, new);
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

#[test]
fn the_template_of_init_is_a_good_config() {
    let config = read_with(TEMPLATE, &[]).unwrap();
    assert_eq!(config.feeds.len(), 1);
}

#[test]
fn the_template_shows_the_defaults() {
    let is_setting = |line: &str| {
        let key = line.split_once('=').map_or("", |(key, _)| key.trim_end());
        // Those that the template's own source and handler cannot have.
        let others = [
            "",
            "connections",
            "sql",
            "where",
            "columns",
            "deletes",
            "command",
            "processes",
            "webhook",
            "headers",
        ];
        !others.contains(&key) && key.chars().all(char::is_alphabetic)
    };
    let uncomment = |line: &str| match line.strip_prefix("# ") {
        Some(shown) if is_setting(shown) || shown.starts_with("[") => shown.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = TEMPLATE.lines().map(uncomment).collect();
    let text = text.join("\n").replace("[feed.orders.handler.delete]", "");
    let (shown, plain) = (read_with(&text, &[]).unwrap(), read_with(TEMPLATE, &[]).unwrap());
    let feed =
        |config: &Config| format!("{:?}", config.feed("orders").unwrap()).replace(r#"Some(["id"])"#, "None");
    assert_eq!(feed(&shown), feed(&plain));
    assert_eq!(shown.lease, plain.lease);
}

#[test]
fn what_nobody_says_has_a_default() {
    let feed = totals(SMALLEST);
    assert_eq!((feed.partitions, feed.every, feed.key), (16, Duration::from_millis(50), None));
    assert_eq!((feed.start, feed.deletes, feed.retry), (Start::Beginning, true, Retry::default()));
    assert_eq!(
        format!("{:?}", feed.handler),
        "HandlerConfig { kind: Sink(ToStdout), batch: 100, concurrency: 8, timeout: 30s, format: Seriatim, mode: Structured }"
    );
    assert_eq!(read_with(SMALLEST, &[]).unwrap().lease, seriatim::host::LeaseSettings::default());
}

#[test]
fn every_setting_is_read() {
    let feed = totals(
        r#"
        store = "sqlite:shop.db"
        source.shop.url = "sqlite:shop.db"
        [feed.totals]
        source = "shop"
        capture = "log"
        table = "orders"
        key = ["a", "b"]
        partitions = 3
        start = 2026-11-15T08:00:00Z
        deletes = true
        every = "1s"
        handler = { sql = "select 1", batch = 1, concurrency = 2, timeout = "1m", delete.sql = "select 2" }
        retry = { attempts = 1, backoff = "1s..2s", then = "stop" }
        "#,
    );
    assert_eq!(feed.database.to_string(), "sqlite:/etc/app/shop.db");
    assert_eq!((feed.capture, feed.partitions, feed.deletes), (CaptureKind::Log, 3, true));
    assert_eq!(feed.key, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(feed.start, Start::Time("2026-11-15T08:00:00Z".parse().unwrap()));
    assert_eq!((feed.handler.batch, feed.handler.concurrency), (1, 2));
    let sql = r#"Sql { sql: "select 1", delete: Some("select 2") }"#;
    assert_eq!(format!("{:?}", feed.handler.kind), sql);
    assert_eq!((feed.retry.attempts, feed.retry.then), (1, Then::Stop));
}

#[test]
fn a_log_has_deletes_only_on_request() {
    assert!(!totals(&SMALLEST.replace("journal", "log")).deletes);
    assert_said(
        "table",
        "deletes = false\ntable",
        &["feed.totals.deletes cannot be false", r#"capture = "log""#],
    );
}

#[test]
fn the_environment_overrides_the_file() {
    let variables = [
        ("SERIATIM_STORE", "sqlite:/elsewhere.db"),
        ("SERIATIM_LEASE_EXPIRE", "20s"),
        ("SERIATIM_SOURCE_SHOP_URL", "sqlite:other.db"),
        ("SERIATIM_FEED_TOTALS_PARTITIONS", "4"),
        ("SERIATIM_FEED_TOTALS_KEY", "a, b"),
        ("SERIATIM_FEED_TOTALS_HANDLER_BATCH", "7"),
        ("SERIATIM_FEED_TOTALS_RETRY_THEN", "skip"),
    ];
    let config = read_with(SMALLEST, &variables).unwrap();
    let feed = config.feed("totals").unwrap();
    assert_eq!(config.store.to_string(), "sqlite:/elsewhere.db");
    assert_eq!(config.lease.expire, Duration::from_secs(20));
    assert_eq!(feed.database.to_string(), "sqlite:/etc/app/other.db");
    assert_eq!((feed.partitions, feed.handler.batch, feed.retry.then), (4, 7, Then::Skip));
    assert_eq!(feed.key, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert!(config.warnings.is_empty());
}

#[test]
fn a_bad_variable_is_named() {
    let error = read_with(SMALLEST, &[("SERIATIM_FEED_TOTALS_HANDLER_BATCH", "many")]).unwrap_err();
    let expected =
        "feed.totals.handler.batch (set by SERIATIM_FEED_TOTALS_HANDLER_BATCH) must be a whole number";
    assert!(error.sentence().starts_with(expected), "{}", error.sentence());
}

#[test]
fn an_unknown_variable_is_only_warned_of() {
    let config = read_with(SMALLEST, &[("SERIATIM_LEASE_EXPIRES", "20s")]).unwrap();
    assert_eq!(config.warnings, ["SERIATIM_LEASE_EXPIRES sets nothing; did you mean SERIATIM_LEASE_EXPIRE?"]);
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
    let place = "/etc/app/seriatim.toml:8: unknown key feed.totals.tabel";
    assert_said("table", "tabel", &[place, r#"did you mean "table"?"#]);
    assert_said("store", "stoer", &["seriatim.toml:2: unknown key stoer", r#"did you mean "store"?"#]);
    assert_said("url", "path", &["unknown key source.shop.path", "it can be: url"]);
    assert_said("stdout", "stdin", &["unknown key feed.totals.handler.stdin"]);
    assert_said("table", "retry.attempt = 1\ntable", &["unknown key feed.totals.retry.attempt", "attempts"]);
}

#[test]
fn a_bad_value_is_named() {
    assert_said(
        "\"journal\"",
        "\"jornal\"",
        &[r#"feed.totals.capture cannot be "jornal""#, r#"mean "journal"?"#],
    );
    assert_said("\"journal\"", "7", &["feed.totals.capture must be a text, not a whole number"]);
    assert_said(
        "\"shop\"",
        "\"shpo\"",
        &[r#"feed.totals.source names no source: "shpo""#, r#"mean "shop"?"#],
    );
    assert_said("sqlite:shop.db", "mysql:shop", &[r#"source.shop.url has the unknown scheme "mysql""#]);
    assert_said("table", "partitions = 0\ntable", &["feed.totals.partitions must be from 1 to 10000, not 0"]);
    assert_said("table", "partitions = -1\ntable", &["feed.totals.partitions must be from 1"]);
    assert_said("table", "partitions = 1.5\ntable", &["partitions must be a whole number, not a number"]);
    assert_said("table", "every = \"soon\"\ntable", &["feed.totals.every must be a duration"]);
    assert_said("table", "every = 5\ntable", &["feed.totals.every must be a text, not a whole number"]);
    assert_said("table", "start = \"later\"\ntable", &["feed.totals.start cannot be", "beginning"]);
    assert_said("table", "start = 2026-11-15T08:00:00\ntable", &["feed.totals.start cannot be", "offset"]);
    assert_said("table", "key = []\ntable", &["feed.totals.key must name columns"]);
    assert_said("table", "key = \"id\"\ntable", &["feed.totals.key must be a list of texts, not a text"]);
    assert_said(
        "table",
        "key = [\"id\", \"id\"]\ntable",
        &[r#"feed.totals.key names the column "id" twice"#],
    );
    assert_said(
        "table",
        "deletes = \"yes\"\ntable",
        &["feed.totals.deletes must be true or false, not a text"],
    );
    assert_said("\"orders\"", "\" \"", &["feed.totals.table must not be empty"]);
    assert_said(
        "stdout",
        "batch = 0\nstdout",
        &["feed.totals.handler.batch must be from 1 to 100000, not 0"],
    );
    assert_said(
        "stdout",
        "batch = \"9\"\nstdout",
        &["feed.totals.handler.batch must be a whole number, not a text"],
    );
    assert_said(
        "stdout",
        "timeout = \"0s\"\nstdout",
        &["feed.totals.handler.timeout must be longer than zero"],
    );
    assert_said("table", "retry.attempts = 0\ntable", &["feed.totals.retry.attempts must be from 1"]);
    assert_said(
        "table",
        "retry.backoff = \"1s\"\ntable",
        &["feed.totals.retry.backoff must be the first and"],
    );
    assert_said(
        "table",
        "retry.then = \"parc\"\ntable",
        &["feed.totals.retry.then cannot be", r#"mean "park"?"#],
    );
    assert_said(
        "[source.shop]",
        "lease = 3\n[source.shop]",
        &["lease must be a section, not a whole number"],
    );
}

#[test]
fn leases_must_outlive_a_lost_renewal() {
    let lease = "lease.renew = \"6s\"\n[source.shop]";
    assert_said("[source.shop]", lease, &["lease.expire (10s) must be at least twice lease.renew (6s)"]);
    assert_said(
        "[source.shop]",
        "lease.acquire = \"0s\"\n[source.shop]",
        &["lease.acquire must be longer than zero"],
    );
}

#[test]
fn what_later_versions_bring_is_known_and_withheld() {
    assert_said(
        "\"journal\"",
        "\"stream\"",
        &["is \"stream\", which is not in this version yet", "journal, log, wal, window, queue"],
    );
}

/// What is said about a window feed with this line added.
#[test]
fn a_feed_has_exactly_one_handler() {
    assert_said("stdout = true", "", &["feed.totals.handler names no handler", "exactly one of"]);
    assert_said("stdout = true", "stdout = false", &["feed.totals.handler names no handler"]);
    assert_said("[feed.totals.handler]\nstdout = true", "", &["feed.totals.handler names no handler"]);
    assert_said("stdout", "sql = \"select 1\"\nstdout", &["stdout cannot be there beside sql"]);
    assert_said("stdout", "delete.sql = \"select 1\"\nstdout", &["feed.totals.handler.delete.sql needs sql"]);
    assert_said("stdout = true", "sql = \"\"", &["feed.totals.handler.sql must not be empty"]);
    assert_said("stdout", "command = [\"x\"]\nstdout", &["stdout cannot be there beside command"]);
    assert_said(
        "stdout = true",
        "comand = [\"x\"]",
        &["unknown key feed.totals.handler.comand", "\"command\""],
    );
}

#[test]
fn a_command_is_a_list_with_a_program_in_it() {
    let with = |handler: &str| {
        let handler = totals(&SMALLEST.replace("stdout = true", handler)).handler;
        (format!("{:?}", handler.kind), handler.batch, handler.concurrency)
    };
    let command = |words: &[&str], processes: usize, environment: &[&str]| {
        let shown = format!(
            "Sink(Command {{ command: {words:?}, processes: {processes}, environment: {environment:?} }})"
        );
        (shown, 32, processes)
    };
    assert_eq!(with("command = [\"python3\", \"handle.py\"]"), command(&["python3", "handle.py"], 1, &[]));
    assert_eq!(with("command = [\"./a\"]\nprocesses = 3"), command(&["./a"], 3, &[]));
    let with_password = with("command = [\"./a\"]\nenvironment = [\"PGPASSWORD\"]");
    assert_eq!(with_password, command(&["./a"], 1, &["PGPASSWORD"]));
    let said = |handler: &str, words: &[&str]| assert_said("stdout = true", handler, words);
    said("command = \"python3 a.py\"", &["command must be a list of texts", "command = ["]);
    said("command = []", &["command names no program"]);
    said("command = [\" \"]", &["command names no program"]);
    said(
        "stdout = true\nprocesses = 2",
        &["processes is for handlers with command, and this one has stdout"],
    );
    said("stdout = true\nenvironment = [\"A\"]", &["environment is for handlers with command"]);
    said("command = [\"x\"]\nprocesses = 0", &["processes must be from 1"]);
    said("command = [\"x\"]\nsecret = \"x\"", &["secret is for handlers with webhook"]);
}

#[test]
fn a_webhook_is_an_address() {
    let handler = "webhook = \"https://example.org/in\"\nsecret_env = \"KEY\"\nheaders = { Authorization = \"Bearer s3cret\" }";
    let feed = totals(&SMALLEST.replace("stdout = true", handler));
    let kind = r#"Webhook { url: "https://example.org/in", headers: [("Authorization", ***)], secrets: [Variable("KEY")] }"#;
    assert_eq!(format!("{:?}", feed.handler.kind), format!("Sink({kind})"));
    assert!(!format!("{feed:?}").contains("s3cret"));
    let said = |handler: &str, words: &[&str]| assert_said("stdout = true", handler, words);
    said("webhook = \"example.org\"", &["webhook is no address", "https://"]);
    said("webhook = \"ftp://example.org\"", &["webhook must begin with http:// or https://"]);
    said("webhook = \"http://x\"\nheaders = { Host = \"y\" }", &["headers.Host", "set by Seriatim itself"]);
    said("webhook = \"http://x\"\nheaders = { X = 1 }", &["headers.X must be a text"]);
    said("webhook = \"http://x\"\nheaders = \"X: 1\"", &["headers must be a section"]);
    said(
        "webhook = \"http://x\"\nsecret = \"a\"\nsecret_env = \"B\"",
        &["secret_env cannot be there beside secret"],
    );
    said("webhook = \"http://x\"\nsecret = \"\"", &["secret must not be empty"]);
    said("webhook = \"http://x\"\nsecret = []", &["secret must not be empty"]);
    said(
        "webhook = \"http://x\"\nsecret = [\"a\", \"whsec_!\"]",
        &["secret cannot be signed with", "no base64"],
    );
    said("stdout = true\nheaders = { X = \"1\" }", &["headers is for handlers with webhook"]);
}

#[test]
fn what_is_missing_is_told_how_to_add() {
    assert_said("table = \"orders\"", "", &["feed.totals.table is missing", "table = \"orders\""]);
    assert_said(
        "store = \"sqlite:seriatim.db\"",
        "",
        &["store is missing", "store = \"sqlite:seriatim.db\""],
    );
    assert_said("source = \"shop\"", "", &["feed.totals.source is missing", "shop"]);
    assert_said("capture = \"journal\"", "", &["feed.totals.capture is missing"]);
    assert_said("url = \"sqlite:shop.db\"", "", &["source.shop.url is missing"]);
}

#[test]
fn a_key_one_level_too_high_is_told_where_it_belongs() {
    assert_said(
        "table",
        "batch = 3\ntable",
        &["unknown key feed.totals.batch", "belongs in the section [feed.totals.handler]"],
    );
    assert_said("table", "then = \"park\"\ntable", &["belongs in the section [feed.totals.retry]"]);
}

#[test]
fn a_url_in_the_wrong_place_does_not_show_its_password() {
    let url = "\"postgres://ann:s3cret@h/d\"";
    for key in ["source", "capture"] {
        let old = if key == "source" { "\"shop\"" } else { "\"journal\"" };
        assert!(!said(old, url).contains("s3cret"), "{key}");
    }
    for key in ["start", "every", "retry.then", "retry.backoff", "handler.timeout"] {
        assert!(!said("table", &format!("{key} = {url}\ntable")).contains("s3cret"), "{key}");
    }
}

#[test]
fn a_password_is_never_in_an_error() {
    let said = said("store = \"sqlite:seriatim.db\"", "store = \"postgres://ann:s3cret@h/d");
    assert!(said.contains("seriatim.toml:2") && !said.contains("s3cret"), "{said}");
}

#[test]
fn an_empty_config_and_one_without_feeds_say_so() {
    let said = read_with("# nothing\n", &[]).unwrap_err().sentence();
    assert_eq!(said, "/etc/app/seriatim.toml is empty");
    let config = read_with("store = \"sqlite:a.db\"", &[]).unwrap();
    assert!(config.chosen(&[]).unwrap_err().sentence().contains("has no feeds"));
}

#[test]
fn an_unknown_feed_gets_the_list_of_feeds() {
    let error = read_with(SMALLEST, &[]).unwrap().feed("total").unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.remedy().unwrap().contains(r#"did you mean "totals"?"#));
}

#[test]
fn a_feed_can_be_about_some_rows_and_columns() {
    let more = "table = \"orders\"\nwhere = \" amount > 10 \"\ncolumns = [\"amount\"]";
    let feed = totals(&SMALLEST.replace("table = \"orders\"", more));
    assert_eq!(feed.filter.as_deref(), Some("amount > 10"));
    assert_eq!(feed.columns, Some(vec!["amount".to_owned()]));
    let filter = |text: &str| format!("table = \"orders\"\nwhere = {text:?}");
    assert_said(
        "table = \"orders\"",
        &filter("a) or (b"),
        &["feed.totals.where", "closes nothing", "one expression"],
    );
    assert_said("table = \"orders\"", &filter(""), &["feed.totals.where is empty"]);
    let none = "table = \"orders\"\ncolumns = []";
    assert_said("table = \"orders\"", none, &["feed.totals.columns must name columns", "to have all"]);
}

#[test]
fn how_much_may_be_parked_can_be_said() {
    let bounds = "[feed.totals.parked]\nobjects = 1\nchanges = 2\nsize = \"3MiB\"\nobject_changes = 4\nobject_size = \"5KiB\"\n";
    let feed = totals(&format!("{SMALLEST}{bounds}"));
    let expected =
        ParkLimits { objects: 1, changes: 2, bytes: 3 << 20, object_changes: 4, object_bytes: 5 << 10 };
    assert_eq!(feed.parked, expected);
    assert_eq!(totals(SMALLEST).parked, ParkLimits::default());
    let wrong = format!("{SMALLEST}{}", bounds.replace("3MiB", "3"));
    let said = read_with(&wrong, &[]).unwrap_err().sentence();
    assert!(said.contains("feed.totals.parked.size must be a size such as \"64MiB\""), "{said}");
    assert_said(
        "table = \"orders\"",
        "table = \"orders\"\nobject_size = \"1GiB\"",
        &["it belongs in the section [feed.totals.parked]"],
    );
}

#[test]
fn when_what_is_parked_is_tried_again_can_be_said() {
    let retry = |retry: &str| format!("{SMALLEST}[feed.totals.parked]\nretry = \"{retry}\"\n");
    let minutes = |first: u64, longest: u64| Backoff {
        first: Duration::from_secs(first * 60),
        longest: Duration::from_secs(longest * 60),
    };
    assert_eq!(totals(SMALLEST).heal, Some(minutes(1, 60)));
    assert_eq!(totals(&retry("2m..5m")).heal, Some(minutes(2, 5)));
    assert_eq!(totals(&retry("never")).heal, None);
    let said = read_with(&retry("often"), &[]).unwrap_err().sentence();
    assert!(said.contains("feed.totals.parked.retry must be the first and the longest pause"), "{said}");
}

#[test]
fn a_queue_has_neither_rows_nor_columns() {
    let queue = "capture = \"queue\"\nwhere = \"amount > 10\"";
    let text = SMALLEST.replace("table = \"orders\"\n", "").replace("capture = \"journal\"", queue);
    let said = read_with(&text, &[]).unwrap_err().sentence();
    assert!(said.contains("feed.totals.where means nothing for a queue"), "{said}");
    let text = SMALLEST.replace("table = \"orders\"\n", "").replace("\"journal\"", "\"queue\"");
    let said = read_with(&format!("{text}[feed.totals.parked]\nobjects = 1"), &[]).unwrap_err().sentence();
    assert!(said.contains("feed.totals.parked means nothing for a queue"), "{said}");
}
