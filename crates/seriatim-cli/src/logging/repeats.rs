//! Lines that repeat: the first ones are written, then one in each interval, with the number of those that were left out.
//!
//! A disk that is full, or a server that is away, fails many times a second. Its lines are of one kind: they differ in nothing but
//! numbers, such as the time and the partition.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// So many lines of one kind are written in an interval.
const FIRST: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(30);

/// So many kinds are remembered.
const MOST_KINDS: usize = 500;

/// What was written lately.
#[derive(Default)]
pub struct Repeats(HashMap<String, Kind>);

struct Kind {
    /// When its interval began.
    since: Instant,
    written: u32,
    left_out: u32,
    /// The last one that was left out.
    last: String,
}

impl Repeats {
    /// The lines to write now, when this one is to be: it, or nothing, and what other kinds have left out in intervals that are over.
    pub fn lines(&mut self, line: &str, now: Instant) -> Vec<String> {
        let own = kind(line);
        let mut lines = self.ended(&own, now);
        if self.0.len() >= MOST_KINDS {
            self.0.retain(|_, kind| kind.left_out > 0);
        }
        lines.extend(self.one_more(own, line, now));
        lines
    }

    /// What other kinds have left out. They are quiet now.
    fn ended(&mut self, own: &str, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (_, kind) in self.0.iter_mut().filter(|(name, _)| *name != own) {
            if kind.left_out > 0 && now - kind.since >= INTERVAL {
                lines.push(counted(&kind.last, kind.left_out));
                *kind = Kind { since: now, written: 0, left_out: 0, last: String::new() };
            }
        }
        lines
    }

    fn one_more(&mut self, own: String, line: &str, now: Instant) -> Option<String> {
        let new = || Kind { since: now, written: 0, left_out: 0, last: String::new() };
        let kind = self.0.entry(own).or_insert_with(new);
        if now - kind.since >= INTERVAL {
            let left_out = std::mem::take(&mut kind.left_out);
            // One that goes on repeating is written once in an interval from here on.
            let written = if left_out > 0 { FIRST } else { 1 };
            (kind.since, kind.written) = (now, written);
            return Some(counted(line, left_out));
        }
        if kind.written < FIRST {
            kind.written += 1;
            return Some(line.to_owned());
        }
        kind.left_out += 1;
        line.clone_into(&mut kind.last);
        None
    }
}

/// The line without its numbers.
fn kind(line: &str) -> String {
    let mut kind = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(letter),
        }
    }
    kind
}

/// The line, with the number of those that were left out since the last one of its kind.
fn counted(line: &str, left_out: u32) -> String {
    let text = line.trim_end();
    match (left_out, text.strip_suffix('}')) {
        (0, _) => line.to_owned(),
        (more, Some(fields)) if text.starts_with('{') => format!("{fields},\"repeated\":{more}}}\n"),
        (more, _) => format!("{text} repeated={more}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> String {
        format!("12:00:{number} WARN cannot renew lease=r/{number}\n")
    }

    #[test]
    fn a_line_that_repeats_is_written_some_times_and_then_once_in_an_interval() {
        let (mut repeats, began) = (Repeats::default(), seriatim::clock::now());
        let mut written = Vec::new();
        // Ten a second, for two minutes.
        for number in 0..1200 {
            written.extend(repeats.lines(&line(number), began + Duration::from_millis(100) * number));
        }
        assert_eq!(written.len(), FIRST as usize + 3, "{written:#?}");
        assert_eq!(written[10], "12:00:300 WARN cannot renew lease=r/300 repeated=290\n");
        assert_eq!(written[11], "12:00:600 WARN cannot renew lease=r/600 repeated=299\n");
    }

    #[test]
    fn other_lines_are_written_and_what_was_left_out_is_told_when_it_is_over() {
        let (mut repeats, now) = (Repeats::default(), seriatim::clock::now());
        for number in 0..15 {
            repeats.lines(&line(number), now);
        }
        assert_eq!(repeats.lines("ERROR feed stopped\n", now), ["ERROR feed stopped\n"]);
        let later = repeats.lines("INFO ended\n", now + INTERVAL);
        assert_eq!(later, ["12:00:14 WARN cannot renew lease=r/14 repeated=5\n", "INFO ended\n"]);
        assert_eq!(repeats.lines(&line(1), now + INTERVAL).len(), 1, "it may be said again");
    }

    #[test]
    fn json_stays_json() {
        let line = "{\"level\":\"WARN\",\"message\":\"cannot renew\"}\n";
        let counted: serde_json::Value = serde_json::from_str(&counted(line, 7)).unwrap();
        assert_eq!((&counted["repeated"], &counted["message"]), (&7.into(), &"cannot renew".into()));
    }
}
