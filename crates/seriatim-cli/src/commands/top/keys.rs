//! What a key does. It decides, and does nothing itself.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use seriatim_dashboard::Action;

use super::picture::Of;
use super::state::{Dialog, Item, Screen, State, Tone};

/// How far a page is.
const PAGE: usize = 10;

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    Quit,
    /// Look at once.
    Look,
    Act(Action),
}

/// Takes a key.
pub fn on(key: KeyEvent, state: &mut State) -> Option<Wish> {
    let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    if is_interrupt {
        return Some(Wish::Quit);
    }
    match state.dialog.take() {
        Some(dialog) => answer(key.code, dialog, state),
        None => {
            state.note = None;
            command(key.code, state)
        }
    }
}

fn command(key: KeyCode, state: &mut State) -> Option<Wish> {
    match key {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Char('u') => return Some(Wish::Look),
        KeyCode::Char('?' | 'h') => state.dialog = Some(Dialog::Help),
        KeyCode::Char('1') => state.go(Screen::Feeds, None),
        KeyCode::Char('2') => state.go(Screen::Parked(None), None),
        KeyCode::Char('3') => state.go(Screen::Hosts, None),
        KeyCode::Tab => next_screen(state),
        KeyCode::Enter | KeyCode::Right => enter(state),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => back(state),
        KeyCode::Char('x') => show_parked(state),
        KeyCode::Char('p' | 'r' | 'R' | 'm') if state.read_only => {
            refuse(state, "this is read-only: start it without --read-only to act");
        }
        KeyCode::Char('p') => pause_or_resume(state),
        KeyCode::Char('r') => retry(state),
        KeyCode::Char('R') => retry_all(state),
        KeyCode::Char('m') => hand_over(state),
        key => move_cursor(key, state),
    }
    None
}

fn move_cursor(key: KeyCode, state: &mut State) {
    let items = state.items();
    let at = match key {
        KeyCode::Up | KeyCode::Char('k') => state.at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => state.at + 1,
        KeyCode::PageUp => state.at.saturating_sub(PAGE),
        KeyCode::PageDown => state.at + PAGE,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => items.len(),
        _ => return,
    };
    state.place(at, &items);
}

fn next_screen(state: &mut State) {
    let next = match state.screen {
        Screen::Feeds | Screen::Partitions(Of::Feed(_)) => Screen::Parked(None),
        Screen::Parked(_) => Screen::Hosts,
        Screen::Hosts | Screen::Partitions(Of::Host(_)) => Screen::Feeds,
    };
    state.go(next, None);
}

fn enter(state: &mut State) {
    let below = match state.chosen.clone() {
        Some(Item::Feed(feed)) => Screen::Partitions(Of::Feed(feed)),
        Some(Item::Host(host)) => Screen::Partitions(Of::Host(host)),
        Some(Item::Partition(feed, _)) => Screen::Parked(Some(feed)),
        Some(Item::Parked(..)) | None => return,
    };
    state.go(below, None);
}

fn back(state: &mut State) {
    match state.screen.clone() {
        Screen::Partitions(Of::Feed(feed)) => state.go(Screen::Feeds, Some(Item::Feed(feed))),
        Screen::Partitions(Of::Host(host)) => state.go(Screen::Hosts, Some(Item::Host(host))),
        Screen::Parked(Some(feed)) => state.go(Screen::Partitions(Of::Feed(feed)), None),
        Screen::Parked(None) | Screen::Hosts | Screen::Feeds => state.go(Screen::Feeds, None),
    }
}

/// The feed that a key is about: the chosen item's, or the screen's.
fn feed(state: &State) -> Option<String> {
    let chosen = state.chosen.as_ref().and_then(Item::feed);
    let shown = match &state.screen {
        Screen::Partitions(Of::Feed(feed)) | Screen::Parked(Some(feed)) => Some(feed.as_str()),
        _ => None,
    };
    chosen.or(shown).map(str::to_owned)
}

fn show_parked(state: &mut State) {
    let feed = feed(state);
    state.go(Screen::Parked(feed), None);
}

fn refuse(state: &mut State, why: &str) {
    state.note = Some((Tone::Bad, why.to_owned()));
}

fn pause_or_resume(state: &mut State) {
    let Some(feed) = feed(state) else { return refuse(state, "choose a feed first") };
    let paused = state.picture.as_ref().and_then(|picture| picture.feed(&feed)).map(|feed| feed.paused);
    state.dialog = match paused {
        Some(true) => Some(Dialog::Sure(Action::Resume { feed })),
        Some(false) => Some(Dialog::Sure(Action::Pause { feed })),
        None => return refuse(state, "the feed is gone"),
    };
}

fn retry(state: &mut State) {
    match state.chosen.clone() {
        Some(Item::Parked(feed, key)) => {
            state.dialog = Some(Dialog::Sure(Action::Retry { feed, key: Some(key) }));
        }
        _ => retry_all(state),
    }
}

fn retry_all(state: &mut State) {
    let Some(feed) = feed(state) else { return refuse(state, "choose a feed first") };
    let parked = state.picture.as_ref().map_or(0, |picture| picture.parked_count(Some(&feed)));
    match parked {
        0 => refuse(state, &format!("nothing of feed {feed} is parked")),
        _ => state.dialog = Some(Dialog::Sure(Action::Retry { feed, key: None })),
    }
}

fn hand_over(state: &mut State) {
    let Some(Item::Partition(feed, partition)) = state.chosen.clone() else {
        return refuse(state, "choose a partition first: Enter on a feed or a host shows its partitions");
    };
    let Some(picture) = &state.picture else { return };
    let parts = picture.feed(&feed).into_iter().flat_map(|feed| &feed.partitions);
    let owner =
        parts.into_iter().find(|part| part.partition.0 == partition).and_then(|part| part.owner.as_ref());
    let others = picture.report.hosts.iter().filter(|host| Some(&host.name) != owner);
    let hosts: Vec<String> = others.map(|host| host.name.to_string()).collect();
    if hosts.is_empty() {
        return refuse(state, "there is no other host to move it to: `seriatim run` starts one");
    }
    state.dialog = Some(Dialog::Host { feed, partition, hosts, at: 0 });
}

fn answer(key: KeyCode, dialog: Dialog, state: &mut State) -> Option<Wish> {
    match dialog {
        Dialog::Help => None,
        Dialog::Sure(action) => match key {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter => Some(Wish::Act(action)),
            _ => {
                state.note = Some((Tone::Good, "nothing was done".to_owned()));
                None
            }
        },
        Dialog::Host { feed, partition, hosts, at } => choose(key, feed, partition, hosts, at, state),
    }
}

fn choose(
    key: KeyCode,
    feed: String,
    partition: u32,
    hosts: Vec<String>,
    at: usize,
    state: &mut State,
) -> Option<Wish> {
    let at = match key {
        KeyCode::Enter => {
            let host = hosts.get(at).cloned()?;
            return Some(Wish::Act(Action::Move { feed, partition, host }));
        }
        KeyCode::Esc | KeyCode::Char('q' | 'n') => return None,
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(hosts.len() - 1),
        _ => at,
    };
    state.dialog = Some(Dialog::Host { feed, partition, hosts, at });
    None
}
