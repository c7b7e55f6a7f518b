//! Keys and screens, without a terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use seriatim::{FeedName, HostName, Partition};
use seriatim_dashboard::Action;

use super::draw::draw;
use super::keys::{Wish, on};
use super::picture::{Of, Picture};
use super::state::{Dialog, Item, Screen, State};
use crate::commands::status::report::tests::report;
use crate::commands::status::report::{HostStatus, LagStatus, PartitionStatus, Report};

/// Two feeds of which one is paused, two hosts, two parked objects.
fn seen() -> Picture {
    let mut seen = report();
    let mut other = report().feeds.remove(0);
    other.name = FeedName::new("mails").unwrap();
    other.paused = true;
    other.parked = 0;
    seen.feeds[0].parked = 2;
    seen.feeds[0].partitions.push(PartitionStatus {
        partition: Partition(1),
        owner: None,
        epoch: seriatim::Epoch(1),
        position: seriatim::Position::number(4),
        lag: LagStatus::default(),
    });
    seen.feeds.insert(0, other);
    let seen_at = seen.hosts[0].seen_at;
    seen.hosts.push(HostStatus { name: HostName::new("b").unwrap(), leases: 0, seen_at });
    picture_of(seen)
}

fn line(id: u64, error: &str) -> Value {
    json!({"feed": "totals", "partition": 0, "key": {"id": id}, "waiting": 2, "attempts": 5, "error": error,
        "since": "2026-11-15T08:00:00Z", "state": "parked", "next_try": null})
}

fn picture_of(report: Report) -> Picture {
    let parked = vec![line(7, "no such user"), line(8, "no \x1b[31msuch\nuser")];
    Picture::new(report, parked, "2026-11-15T08:00:01Z".parse().unwrap())
}

fn state() -> State {
    let mut state = State::new(false);
    state.now = "2026-11-15T08:00:02Z".parse().unwrap();
    state.see(seen());
    state
}

fn press(state: &mut State, keys: &str) -> Option<Wish> {
    let code = |word: &str| match word {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "down" => KeyCode::Down,
        "end" => KeyCode::End,
        letter => KeyCode::Char(letter.chars().next().unwrap()),
    };
    let wishes = keys.split(' ').map(|word| on(KeyEvent::new(code(word), KeyModifiers::NONE), state));
    wishes.last().flatten()
}

/// The screen as lines of text.
fn shown(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| format!("{}\n", line(y).trim_end())).collect()
}

#[test]
fn enter_looks_closer_and_esc_goes_back_to_where_it_was() {
    let mut state = state();
    press(&mut state, "down enter");
    assert_eq!(state.screen, Screen::Partitions(Of::Feed("totals".to_owned())));
    press(&mut state, "enter");
    assert_eq!(state.screen, Screen::Parked(Some("totals".to_owned())));
    press(&mut state, "esc esc");
    assert_eq!((state.screen.clone(), state.at), (Screen::Feeds, 1));
    press(&mut state, "3 enter");
    assert_eq!(state.screen, Screen::Partitions(Of::Host("a".to_owned())));
    assert_eq!(state.items().len(), 2, "its partitions of all feeds");
    press(&mut state, "tab tab");
    assert_eq!(state.screen, Screen::Parked(None));
}

#[test]
fn nothing_is_done_without_a_yes() {
    let mut state = state();
    assert_eq!(press(&mut state, "down p"), None);
    assert!(shown(&state, 80, 24).contains("Pause feed totals on all hosts?"));
    assert_eq!(press(&mut state, "n"), None);
    assert_eq!(state.dialog, None);
    assert_eq!(press(&mut state, "p y"), Some(Wish::Act(Action::Pause { feed: "totals".to_owned() })));
    let resume = Action::Resume { feed: "mails".to_owned() };
    assert_eq!(press(&mut state, "g p y"), Some(Wish::Act(resume)), "a paused feed is resumed");
}

#[test]
fn a_parked_object_is_retried_alone_or_with_all_of_its_feed() {
    let mut state = state();
    let feed = || "totals".to_owned();
    assert_eq!(
        press(&mut state, "2 down r y"),
        Some(Wish::Act(Action::Retry { feed: feed(), key: Some(json!({"id": 8})) }))
    );
    assert_eq!(press(&mut state, "R y"), Some(Wish::Act(Action::Retry { feed: feed(), key: None })));
    press(&mut state, "1 g r");
    assert_eq!(state.dialog, None);
    assert!(state.note.as_ref().unwrap().1.contains("nothing of feed mails is parked"));
}

#[test]
fn a_partition_is_moved_to_a_host_that_does_not_own_it() {
    let mut state = state();
    assert_eq!(press(&mut state, "m"), None);
    assert!(state.note.as_ref().unwrap().1.contains("choose a partition first"));
    press(&mut state, "down enter m");
    assert!(shown(&state, 80, 24).contains("totals/0 to which host?"));
    let to_b = Action::Move { feed: "totals".to_owned(), partition: 0, host: "b".to_owned() };
    assert_eq!(press(&mut state, "enter"), Some(Wish::Act(to_b)));
    press(&mut state, "down m");
    let Some(Dialog::Host { partition, hosts, .. }) = &state.dialog else { panic!("{:?}", state.dialog) };
    assert_eq!((*partition, hosts.as_slice()), (1, &["a".to_owned(), "b".to_owned()][..]), "nobody owns it");
    assert_eq!(press(&mut state, "esc"), None);
}

#[test]
fn the_cursor_and_a_question_stay_on_their_object_when_the_list_changes() {
    let mut state = state();
    press(&mut state, "2 down r");
    let mut later = seen();
    later.parked.remove(0);
    state.see(later);
    assert_eq!(state.chosen, Some(Item::Parked("totals".to_owned(), json!({"id": 8}))));
    assert_eq!(state.at, 0);
    let retry = Action::Retry { feed: "totals".to_owned(), key: Some(json!({"id": 8})) };
    assert_eq!(press(&mut state, "y"), Some(Wish::Act(retry)));
    state.see(Picture::new(Report::default(), Vec::new(), state.now));
    assert_eq!((state.chosen.clone(), state.at), (None, 0));
}

#[test]
fn read_only_acts_on_nothing() {
    let mut state = state();
    state.read_only = true;
    for keys in ["p", "r", "R", "2 r", "3 enter m"] {
        assert_eq!(press(&mut state, keys), None, "{keys}");
        assert_eq!(state.dialog, None, "{keys}");
        assert!(state.note.take().unwrap().1.contains("read-only"), "{keys}");
    }
    assert_eq!(press(&mut state, "q"), Some(Wish::Quit));
}

#[test]
fn control_c_quits_also_from_a_question() {
    let mut state = state();
    press(&mut state, "p");
    let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(on(key, &mut state), Some(Wish::Quit));
}

#[test]
fn feeds_fit_into_80_columns() {
    let mut state = state();
    press(&mut state, "down");
    let screen = shown(&state, 80, 24);
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines[0], "seriatim top  [1 2 feeds]  2 2 parked   3 2 hosts   08:00:01Z");
    assert!(
        lines[2].contains("feed") && lines[2].contains("owned") && lines[2].contains("state"),
        "{screen}"
    );
    assert!(!lines[2].contains("guarantee"), "{screen}");
    assert!(lines[3].starts_with("│  mails") && lines[3].contains("paused"), "{screen}");
    assert!(lines[4].starts_with("│> totals") && lines[4].contains("1/2"), "{screen}");
    assert!(lines[4].contains("unknown"), "a lag that is not known is never shown as none: {screen}");
    assert!(lines[4].contains("2 (2 changes)") && lines[4].contains("running"), "{screen}");
    assert!(lines[23].ends_with("q quit"), "{screen}");
}

#[test]
fn a_wide_screen_has_all_columns() {
    let screen = shown(&state(), 200, 50);
    for word in ["capture", "guarantee", "journal", "exactly-once", "after a crash, nothing comes again"] {
        assert!(screen.contains(word), "{word}: {screen}");
    }
}

#[test]
fn the_error_of_a_parked_object_is_text_and_cannot_steer_the_terminal() {
    let mut state = state();
    press(&mut state, "2 down");
    let screen = shown(&state, 80, 24);
    assert!(!screen.contains('\x1b'));
    assert!(screen.contains("no [31msuch") && screen.contains(r#"{"id":8} of feed totals"#), "{screen}");
}

#[test]
fn the_cursor_is_seen_in_a_list_longer_than_the_screen() {
    let mut state = state();
    let mut seen = seen();
    let parked = (0..1000).map(|id| line(id, "no")).collect();
    seen = Picture::new(seen.report, parked, seen.at);
    seen.report.feeds[1].parked = 5000;
    state.see(seen);
    press(&mut state, "2 end");
    let screen = shown(&state, 80, 24);
    assert!(screen.contains(r#"> totals"#) && screen.contains(r#"{"id":999}"#), "{screen}");
    assert!(screen.contains("the first 1000 of 5000"), "{screen}");
}

#[test]
fn an_old_picture_says_how_old_it_is_and_why() {
    let mut state = state();
    state.now = "2026-11-15T08:01:01Z".parse().unwrap();
    state.trouble = Some("the store cannot be reached; start it".to_owned());
    let screen = shown(&state, 80, 24);
    assert!(screen.contains("seen 60 s ago") && screen.contains("cannot be reached; start it"), "{screen}");
    let mut first = State::new(false);
    assert!(shown(&first, 80, 24).contains("looking"));
    first.see(Picture::default());
    assert!(shown(&first, 80, 24).contains("nothing has run yet"));
}

#[test]
fn any_size_can_be_drawn() {
    let mut state = state();
    for keys in ["1", "enter", "m", "esc", "2", "3", "?"] {
        press(&mut state, keys);
        for (width, height) in [(1, 1), (5, 3), (20, 8), (80, 24), (300, 100)] {
            shown(&state, width, height);
        }
    }
}
