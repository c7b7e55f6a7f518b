//! The screens, as text in boxes. All of it can be read without colour.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::picture::{Of, ParkedLine, Picture, question};
use super::state::{Dialog, Item, Screen, State, Tone};
use crate::commands::status::report::{FeedStatus, Obstacle};
use crate::output;

/// From this width on, all columns are shown.
const WIDE: u16 = 110;

const KEYS: &str = "\
up, down, j, k      move             PageUp, PageDown   further
Enter, right        look closer      Esc, left          go back
1  feeds   2  parked   3  hosts      Tab                the next of them
x                   what is parked of the feed
p                   pause or resume the feed
r                   try the parked object again (on a feed: all of it)
R                   try all parked objects of the feed again
m                   move the partition to another host
u                   look now (else every 2 s)
q, Ctrl-C           quit";

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let details = if frame.area().height >= 40 { 12 } else { 7 };
    let [title, list, details, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(details),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(headline(state), title);
    match &state.picture {
        Some(picture) => {
            frame.render_widget(
                Paragraph::new(about(picture, state)).wrap(Wrap { trim: false }).block(box_of("details")),
                details,
            );
            draw_list(frame, list, picture, state);
        }
        None => frame.render_widget(Paragraph::new(waiting(state)).wrap(Wrap { trim: false }), list),
    }
    frame.render_widget(last_line(state), foot);
    draw_dialog(frame, state);
}

fn box_of(title: &str) -> Block<'_> {
    Block::bordered().title(title)
}

fn waiting(state: &State) -> String {
    state.trouble.clone().unwrap_or_else(|| "looking …".to_owned())
}

fn headline(state: &State) -> Line<'static> {
    let (parked, hosts, feeds) = state.picture.as_ref().map_or((0, 0, 0), |picture| {
        (picture.parked_count(None), picture.report.hosts.len(), picture.report.feeds.len())
    });
    let mut spans = vec![Span::styled("seriatim top  ", bold())];
    let is = |screen: &Screen, tab: usize| match screen {
        Screen::Feeds | Screen::Partitions(Of::Feed(_)) => tab == 1,
        Screen::Parked(_) => tab == 2,
        Screen::Hosts | Screen::Partitions(Of::Host(_)) => tab == 3,
    };
    for (tab, words) in
        [(1, format!("{feeds} feeds")), (2, format!("{parked} parked")), (3, format!("{hosts} hosts"))]
    {
        let (open, close) = if is(&state.screen, tab) { ("[", "]") } else { (" ", " ") };
        let style = if is(&state.screen, tab) { bold() } else { Style::new() };
        spans.push(Span::styled(format!("{open}{tab} {words}{close} "), style));
    }
    spans.push(seen(state));
    if state.read_only {
        spans.push(Span::raw("  read-only"));
    }
    Line::from(spans)
}

/// When the picture was taken; loud when that is long ago.
fn seen(state: &State) -> Span<'static> {
    let Some(picture) = &state.picture else { return Span::raw("") };
    let age = state.now.duration_since(picture.at).as_secs();
    match age {
        ..=9 => Span::raw(format!(" {}", picture.at.strftime("%H:%M:%SZ"))),
        age => Span::styled(format!(" seen {age} s ago"), toned(Tone::Bad)),
    }
}

/// A table that is to be drawn.
struct List {
    title: String,
    titles: Vec<&'static str>,
    widths: Vec<Constraint>,
    rows: Vec<Vec<(Style, String)>>,
    /// What stands there when there is nothing.
    empty: &'static str,
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, picture: &Picture, state: &State) {
    let list = list(picture, state, area.width >= WIDE);
    let block = box_of(&list.title);
    if list.rows.is_empty() {
        frame.render_widget(Paragraph::new(list.empty).wrap(Wrap { trim: false }).block(block), area);
        return;
    }
    // The lines around the cursor: a table of a hundred thousand is not laid out for one picture.
    let room = usize::from(area.height.saturating_sub(3)).max(1);
    let first = (state.at + 1).saturating_sub(room);
    let rows =
        list.rows.into_iter().skip(first).take(room).map(|cells| {
            Row::new(cells.into_iter().map(|(style, text)| Cell::from(Span::styled(text, style))))
        });
    let table = Table::new(rows, list.widths)
        .header(Row::new(list.titles).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ")
        .block(block);
    let mut cursor = TableState::new().with_selected(Some(state.at - first.min(state.at)));
    frame.render_stateful_widget(table, area, &mut cursor);
}

fn list(picture: &Picture, state: &State, is_wide: bool) -> List {
    match &state.screen {
        Screen::Feeds => feeds(picture, is_wide),
        Screen::Partitions(of) => partitions(picture, of, is_wide),
        Screen::Parked(feed) => parked(picture, feed.as_deref(), is_wide),
        Screen::Hosts => hosts(picture),
    }
}

fn feeds(picture: &Picture, is_wide: bool) -> List {
    use Constraint::{Fill, Length};
    let titles = ["feed", "capture", "guarantee", "owned", "lag", "parked", "state"];
    let widths = [Fill(1), Length(8), Length(14), Length(10), Length(16), Length(18), Length(17)];
    // On a narrow screen how it is captured and what is promised give way.
    let shown: &[usize] = if is_wide { &[0, 1, 2, 3, 4, 5, 6] } else { &[0, 3, 4, 5, 6] };
    let row = |feed: &FeedStatus| {
        let cells = feed.cells();
        shown.iter().map(|column| (of(cells[*column].0), cells[*column].1.clone())).collect()
    };
    List {
        title: "feeds".to_owned(),
        titles: shown.iter().map(|column| titles[*column]).collect(),
        widths: shown.iter().map(|column| widths[*column]).collect(),
        rows: picture.report.feeds.iter().map(row).collect(),
        empty: "nothing has run yet: `seriatim run` starts the feeds of the config",
    }
}

fn partitions(picture: &Picture, of_what: &Of, is_wide: bool) -> List {
    use Constraint::{Fill, Length};
    let position = if is_wide { Fill(2) } else { Length(14) };
    let row = |feed: &FeedStatus, cells: [(anstyle::Style, String); 5]| {
        let name = (Style::new(), feed.name.to_string());
        std::iter::once(name).chain(cells.map(|(style, text)| (of(style), text))).collect()
    };
    let parts = picture.partitions(of_what).into_iter();
    List {
        title: match of_what {
            Of::Feed(feed) => format!("partitions of feed {feed}"),
            Of::Host(host) => format!("partitions of host {host}"),
        },
        titles: vec!["feed", "partition", "owner", "epoch", "lag", "position"],
        widths: vec![Fill(1), Length(9), Fill(1), Length(6), Length(16), position],
        rows: parts.map(|(feed, part)| row(feed, part.cells())).collect(),
        empty: "none",
    }
}

fn parked(picture: &Picture, feed: Option<&str>, is_wide: bool) -> List {
    use Constraint::{Fill, Length};
    let (listed, all) = (picture.parked(feed), picture.parked_count(feed));
    let of_feed = feed.map_or_else(String::new, |feed| format!(" of feed {feed}"));
    let some =
        if all > listed.len() { format!(", the first {} of {all}", listed.len()) } else { String::new() };
    let row = |line: &&ParkedLine| {
        let plain =
            [line.feed.clone(), line.key.to_string(), line.waiting.to_string(), line.attempts.to_string()];
        let cells = plain.into_iter().map(|text| (Style::new(), text));
        cells.chain([(toned(Tone::Bad), line.error.clone())]).collect()
    };
    List {
        title: format!("parked objects{of_feed}{some}"),
        titles: vec!["feed", "key", "waiting", "attempts", "error"],
        widths: vec![Fill(1), Fill(2), Length(8), Length(8), Fill(if is_wide { 5 } else { 3 })],
        rows: listed.iter().map(row).collect(),
        empty: "nothing is parked. An object whose change cannot be handled is parked, and its later changes wait behind it.",
    }
}

fn hosts(picture: &Picture) -> List {
    use Constraint::{Fill, Length};
    let row = |host: &crate::commands::status::report::HostStatus| {
        let cells = [host.name.to_string(), host.leases.to_string(), format!("{:.0}", host.seen_at)];
        cells.into_iter().map(|text| (Style::new(), text)).collect()
    };
    List {
        title: "hosts".to_owned(),
        titles: vec!["host", "leases", "seen at"],
        widths: vec![Fill(1), Length(8), Length(21)],
        rows: picture.report.hosts.iter().map(row).collect(),
        empty: "no host is running: `seriatim run` starts one",
    }
}

/// What there is to say of the chosen item.
fn about<'a>(picture: &'a Picture, state: &'a State) -> Text<'a> {
    let mut lines = Vec::new();
    if let Some(trouble) = &state.trouble {
        lines.push(Line::styled(trouble.as_str(), toned(Tone::Bad)));
    }
    match &state.chosen {
        Some(Item::Parked(feed, key)) => {
            let found = picture.parked.iter().find(|line| line.feed == *feed && line.key == *key);
            lines.extend(found.map(about_parked).into_iter().flatten());
        }
        Some(Item::Feed(feed) | Item::Partition(feed, _)) => {
            lines.extend(picture.feed(feed).map(about_feed).into_iter().flatten());
        }
        Some(Item::Host(_)) | None => {}
    }
    if matches!(state.screen, Screen::Feeds | Screen::Hosts) {
        lines.extend(picture.report.notes.iter().map(|note| obstacle("note:", note)));
    }
    Text::from(lines)
}

fn about_feed(feed: &FeedStatus) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> =
        feed.blocked_by.iter().map(|blocker| obstacle("blocked:", blocker)).collect();
    if let Some(guarantee) = feed.guarantee {
        let again =
            feed.comes_again.as_ref().map_or_else(String::new, |again| format!("; {}", again.sentence()));
        lines.push(Line::raw(format!("{}: {}{again}", feed.name, guarantee.as_str())));
    }
    if lines.is_empty() {
        lines.push(Line::raw(format!("{} is not in the config: only the store knows it", feed.name)));
    }
    lines
}

fn about_parked(line: &ParkedLine) -> Vec<Line<'_>> {
    let next = line.next_try.map_or_else(String::new, |next| format!("; tried again by itself at {next:.0}"));
    vec![
        Line::styled(line.error.as_str(), toned(Tone::Bad)),
        Line::raw(format!(
            "{} of feed {}, partition {}: {} waiting, {} attempts, since {:.0}{next}",
            line.key, line.feed, line.partition, line.waiting, line.attempts, line.since
        )),
    ]
}

fn obstacle<'a>(word: &'a str, obstacle: &'a Obstacle) -> Line<'a> {
    let since = obstacle.since.map_or_else(String::new, |since| format!(" since {since:.0}"));
    Line::from(vec![
        Span::styled(word, toned(Tone::Bad)),
        Span::raw(format!(" {}{since}; {}", obstacle.what, obstacle.remedy)),
    ])
}

fn last_line(state: &State) -> Line<'_> {
    if let Some(Dialog::Sure(action)) = &state.dialog {
        return Line::styled(format!("{} y: yes, any other key: no", question(action)), bold());
    }
    match &state.note {
        Some((tone, note)) => Line::styled(note.as_str(), toned(*tone)),
        None => Line::raw("Enter closer  Esc back  p pause/resume  r retry  m move  ? keys  q quit"),
    }
}

fn draw_dialog(frame: &mut Frame<'_>, state: &State) {
    match &state.dialog {
        Some(Dialog::Help) => {
            over(frame, "keys", Paragraph::new(KEYS), 74, 12);
        }
        Some(Dialog::Host { feed, partition, hosts, at }) => {
            let room = usize::from(frame.area().height.saturating_sub(8)).max(1);
            let first = (at + 1).saturating_sub(room);
            let lines =
                hosts.iter().enumerate().skip(first).take(room).map(|(place, host)| match place == *at {
                    true => Line::styled(format!("> {host}"), Style::new().add_modifier(Modifier::REVERSED)),
                    false => Line::raw(format!("  {host}")),
                });
            let lines: Vec<Line<'_>> = lines.collect();
            let (title, height) = (format!("{feed}/{partition} to which host? Enter, Esc"), lines.len());
            over(
                frame,
                &title,
                Paragraph::new(lines),
                60,
                u16::try_from(height).unwrap_or(u16::MAX).saturating_add(2),
            );
        }
        Some(Dialog::Sure(_)) | None => {}
    }
}

/// A box over the middle of the screen.
fn over(frame: &mut Frame<'_>, title: &str, text: Paragraph<'_>, width: u16, height: u16) {
    let area = frame.area().centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, area);
    frame.render_widget(text.block(box_of(title)), area);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn toned(tone: Tone) -> Style {
    match tone {
        Tone::Good => of(output::GOOD),
        Tone::Bad => of(output::BAD),
    }
}

/// A style of the program's other output.
fn of(style: anstyle::Style) -> Style {
    let colour = match style.get_fg_color() {
        Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green)) => Style::new().fg(Color::Green),
        Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)) => Style::new().fg(Color::Yellow),
        Some(anstyle::Color::Ansi(anstyle::AnsiColor::Red)) => Style::new().fg(Color::Red),
        _ => Style::new(),
    };
    let effects = style.get_effects();
    let colour =
        if effects.contains(anstyle::Effects::BOLD) { colour.add_modifier(Modifier::BOLD) } else { colour };
    if effects.contains(anstyle::Effects::DIMMED) { colour.add_modifier(Modifier::DIM) } else { colour }
}
