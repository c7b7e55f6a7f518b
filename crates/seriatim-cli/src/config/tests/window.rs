//! What a window can be told.

use seriatim::source::window::Age;

use super::*;

fn said_of_window(line: &str) -> String {
    said("capture = \"journal\"", &format!("capture = \"window\"\nchanged_at = \"at\"\n{line}"))
}

#[test]
fn every_setting_of_a_window_is_read() {
    let smallest = SMALLEST.replace("\"journal\"", "\"window\"\nchanged_at = \"at\"");
    let feed = totals(&smallest);
    assert_eq!((feed.capture, feed.partitions, feed.deletes), (CaptureKind::Window, 1, false));
    let window = feed.window.unwrap();
    assert_eq!((window.changed_at.as_str(), window.unit, window.horizon), ("at", None, Horizon::Exact));
    assert_eq!((window.rules.buffer, window.rules.stale_age), (Duration::from_secs(5), Age::Infinite));
    assert_eq!((window.rules.excessive_count.get(), window.query), (1000, None));
    let all = r#""window"
        changed_at = "at"
        changed_at_unit = "us"
        buffer = "10ms"
        stale_age = "30d"
        excessive_count = 7
        horizon = "buffer"
        query = "select 1"
        key = ["id"]"#;
    let feed = totals(&SMALLEST.replace("\"journal\"", all).replace("table = \"orders\"", ""));
    let window = feed.window.unwrap();
    assert_eq!((window.unit, window.horizon), (Some(Unit::Microseconds), Horizon::Buffer));
    assert_eq!(window.rules.stale_age, Age::Of(Duration::from_secs(30 * 24 * 3600)));
    assert_eq!((window.rules.excessive_count.get(), window.query.as_deref()), (7, Some("select 1")));
    assert_eq!(window.rules.buffer, Duration::from_millis(10));
}

#[test]
fn settings_of_a_window_that_make_no_sense_say_so() {
    for (line, parts) in [
        ("buffer = \"0s\"", ["feed.totals.buffer must be longer than zero", "0s"]),
        ("buffer = \"-5s\"", ["feed.totals.buffer", "longer than zero"]),
        ("buffer = \"soon\"", ["feed.totals.buffer must be a duration", "soon"]),
        ("stale_age = \"never\"", ["feed.totals.stale_age must be a duration", "infinite"]),
        ("stale_age = \"5s\"", ["stale age must be longer than the buffer (5s)", "raise stale_age"]),
        ("excessive_count = 0", ["feed.totals.excessive_count must be from 1", "not 0"]),
        ("excessive_count = \"many\"", ["feed.totals.excessive_count must be a whole number", "a text"]),
        ("changed_at_unit = \"m\"", ["feed.totals.changed_at_unit cannot be \"m\"", "ms"]),
        ("horizon = \"exakt\"", ["feed.totals.horizon cannot be \"exakt\"", "exact"]),
        ("query = \"select 1\"", ["feed.totals.query cannot be there beside table", "one of them"]),
        ("deletes = true", ["feed.totals.deletes cannot be true", "journal"]),
    ] {
        let said = said_of_window(line);
        assert!(parts.iter().all(|part| said.contains(part)), "{line}: {said}");
    }
    assert_said("\"journal\"", "\"window\"", &["feed.totals.changed_at is missing", "updated_at"]);
    assert_said("table = \"orders\"", "query = \"select 1\"", &["feed.totals.query is for window feeds"]);
    assert_said(
        "table",
        "buffer = \"5s\"\ntable",
        &["feed.totals.buffer is for window feeds, and this is a journal"],
    );
    let keyless = SMALLEST.replace("\"journal\"", "\"window\"\nchanged_at = \"at\"\nquery = \"select 1\"");
    let error = read_with(&keyless.replace("table = \"orders\"", ""), &[]).unwrap_err();
    assert!(error.sentence().contains("feed.totals.query needs a key"), "{}", error.sentence());
}

#[test]
fn the_variables_of_windows_override_the_file() {
    let window = SMALLEST.replace("\"journal\"", "\"window\"\nchanged_at = \"at\"\nbuffer = \"9s\"");
    let variables = [("RECORD_CHANGE_WINDOW_BUFFER", "250ms"), ("TOTALS_EXCESSIVE_COUNT", "50000")];
    let feed = read_with(&window, &variables).unwrap().feed("totals").unwrap().clone();
    let rules = feed.window.unwrap().rules;
    assert_eq!((rules.buffer, rules.excessive_count.get()), (Duration::from_millis(250), 50_000));
    for variable in [
        ("RECORD_CHANGE_WINDOW_BUFFER", "0"),
        ("TOTALS_EXCESSIVE_COUNT", "-1"),
        ("TOTALS_EXCESSIVE_COUNT", "x"),
    ] {
        let error = read_with(&window, &[variable]).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage);
        assert!(error.sentence().contains(variable.0), "{}", error.sentence());
        assert!(read_with(SMALLEST, &[variable]).is_ok(), "it does not concern a journal");
    }
}
