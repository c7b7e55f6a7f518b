//! From what was noted and what is in the databases to a history that the simulator's checkers judge. Pure.
//!
//! Two feeds watch the same table: `told`, whose command notes what it sees, and `exact`, whose effects are in the
//! checkpoint's transaction. To the checkers they are two feeds with objects of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::journal::{Line, Said, Seen};
use crate::sim::Machine;
use crate::sim::history::{Entry, What};

/// What the databases say when all is over.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Every change that was committed.
    pub committed: Vec<Seen>,
    /// Every effect that is in the database, with when, in milliseconds of the time of day, in the order of its making.
    pub effects: Vec<(u64, Seen)>,
    /// Whether there is a feed whose effects are in the checkpoint's transaction.
    pub exact: bool,
    /// Whether each change names the one before it.
    pub chained: bool,
}

const TOLD: u32 = 0;
const EXACT: u32 = 1;

/// What sets the objects of the second feed apart.
const APART: u32 = 1000;

/// How much earlier than it was noticed a stall may have begun, in microseconds.
const SLACK: u64 = 50_000;

fn object(feed: u32, key: u32) -> i64 {
    i64::from(feed * APART + key)
}

/// A change's number: its object and its revision, to be read by people.
fn number(feed: u32, key: u32, revision: u64) -> u64 {
    u64::from(feed * APART + key) * 1_000_000 + revision
}

/// A change that nobody committed has a number that no committed one has.
const NEVER: u64 = 500_000;

/// The history of a run.
pub fn history(lines: &[Line], facts: &Facts) -> Vec<Entry> {
    let mut story = Story::new(lines, facts);
    for (place, line) in lines.iter().enumerate() {
        story.stalls(line.at);
        story.effects(line.at / 1000);
        story.tell(place, line);
    }
    story.effects(u64::MAX);
    story.entries
}

/// The last entries that matter for a sentence about some objects: whatever happened to them, and to processes and servers.
pub fn about(history: &[Entry], sentence: &str, most: usize) -> Vec<Entry> {
    let numbers = sentence.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
    let objects: BTreeSet<u64> = numbers
        .filter_map(|number| Some(number / 1_000_000).filter(|object| *object > 0 || number == 0))
        .collect();
    let is_meant = |change: &u64| objects.contains(&(change / 1_000_000));
    let matters = |entry: &&Entry| match &entry.what {
        What::Committed { change, .. }
        | What::Handled { change, .. }
        | What::Failed { change, .. }
        | What::Linked { change, .. } => is_meant(change),
        What::Began { changes, .. } | What::Effect { changes, .. } => changes.iter().any(is_meant),
        What::Ended { .. } => false,
        _ => true,
    };
    let mut entries: Vec<Entry> = history.iter().filter(matters).cloned().collect();
    entries.split_off(entries.len().saturating_sub(most))
}

struct Story {
    entries: Vec<Entry>,
    began: u64,
    exact: bool,
    chained: bool,
    tokens: BTreeMap<(u32, u64), String>,
    /// Committed changes that the history has.
    told_of: BTreeSet<(u32, u64)>,
    effects: VecDeque<(u64, Seen)>,
    /// Ids of the feed's changes, for those that follow them.
    by_id: BTreeMap<u64, u64>,
    /// After which place nothing is heard of a process any more.
    last_words: BTreeMap<u32, usize>,
    open_calls: BTreeMap<u32, Vec<(u64, u32)>>,
    calls: u64,
    living: BTreeSet<u32>,
    paused: BTreeSet<u32>,
    /// When nobody ran, from and to, in order.
    stalls: VecDeque<(u64, u64)>,
    stalled_until: Option<u64>,
    poisoned: BTreeSet<u32>,
    now: u64,
}

impl Story {
    fn new(lines: &[Line], facts: &Facts) -> Self {
        let stall = |line: &Line| match line.said {
            Said::Stalled { millis } => Some((line.at.saturating_sub(millis * 1000 + SLACK), line.at)),
            _ => None,
        };
        let tokens =
            facts.committed.iter().map(|seen| ((seen.key, seen.revision), seen.token.clone())).collect();
        let last_words = lines.iter().enumerate().map(|(place, line)| (line.process, place)).collect();
        let by_id = lines.iter().filter_map(|line| match &line.said {
            Said::Began(seen) => Some((seen.link.0, number(TOLD, seen.key, seen.revision))),
            _ => None,
        });
        Story {
            entries: Vec::new(),
            began: lines.first().map_or(0, |line| line.at),
            exact: facts.exact,
            chained: facts.chained,
            tokens,
            told_of: BTreeSet::new(),
            effects: facts.effects.iter().cloned().collect(),
            by_id: by_id.collect(),
            last_words,
            open_calls: BTreeMap::new(),
            calls: 0,
            living: BTreeSet::new(),
            paused: BTreeSet::new(),
            stalls: lines.iter().filter_map(stall).collect(),
            stalled_until: None,
            poisoned: BTreeSet::new(),
            now: 0,
        }
    }

    fn push(&mut self, machine: u32, what: What) {
        let step = self.entries.len() as u64;
        self.entries.push(Entry { step, at: self.now, machine: Machine(machine), what });
    }

    fn change(&self, feed: u32, seen: &Seen) -> u64 {
        let right = self.tokens.get(&(seen.key, seen.revision)) == Some(&seen.token);
        number(feed, seen.key, seen.revision) + if right { 0 } else { NEVER }
    }

    /// While nobody ran, everybody stood still.
    fn stalls(&mut self, at: u64) {
        if self.stalled_until.is_some_and(|until| at >= until) {
            self.stalled_until = None;
            for machine in self.living.clone() {
                if !self.paused.contains(&machine) {
                    self.push(machine, What::Resumed);
                }
            }
        }
        while let Some((_, until)) = self.stalls.front().copied().filter(|(from, _)| *from <= at) {
            self.stalls.pop_front();
            self.stalled_until = Some(until);
            self.living.clone().into_iter().for_each(|machine| self.push(machine, What::Paused));
        }
    }

    /// Effects up to this millisecond, as far as their commits have been told of.
    fn effects(&mut self, upto: u64) {
        while let Some((at, seen)) = self.effects.front().cloned() {
            let is_known = self.told_of.contains(&(seen.key, seen.revision));
            let never_was = self.change(EXACT, &seen) != number(EXACT, seen.key, seen.revision);
            if upto != u64::MAX && (at > upto || !(is_known || never_was)) {
                return;
            }
            self.effects.pop_front();
            let changes = vec![self.change(EXACT, &seen)];
            self.push(0, What::Effect { feed: EXACT, partition: 0, epoch: 0, changes });
        }
    }

    fn tell(&mut self, place: usize, line: &Line) {
        self.now = self.now.max(line.at.saturating_sub(self.began) / 1000);
        let machine = line.machine;
        match &line.said {
            Said::Writing(seen) => self.writing(seen),
            Said::Began(seen) => self.begins(line, seen),
            Said::Handled(seen) => self.ends(line, seen, |call, change| What::Handled { call, change }),
            Said::Failed(seen) => self.ends(line, seen, |call, change| What::Failed { call, change }),
            Said::Started { name } => {
                self.living.insert(machine);
                self.push(machine, What::Started { name: name.clone() });
            }
            Said::Stopping => self.push(machine, What::Stopping),
            Said::Ended { how } => {
                self.living.remove(&machine);
                self.push(machine, What::Stopped { how: how.clone() });
            }
            Said::Killed => {
                // Its command may go on for a while with what it has.
                self.push(machine, What::Paused);
                self.living.remove(&machine);
                self.push(machine, What::Crashed { at: "somewhere".to_owned() });
            }
            Said::Paused => {
                self.paused.insert(machine);
                self.push(machine, What::Paused);
            }
            Said::Resumed => {
                self.paused.remove(&machine);
                self.push(machine, What::Resumed);
            }
            Said::CutOff => self.push(machine, What::CutOff),
            Said::Connected => self.push(machine, What::Connected),
            Said::Hurt { what } => self.push(machine, What::Hurt { what: what.clone() }),
            Said::Poisoned { key } => drop(self.poisoned.insert(*key)),
            Said::Calm => self.push(0, What::Calm),
            Said::Cured => self.cured(),
            Said::Over => self.push(0, What::Over),
            Said::Command | Said::Idle | Said::Healed | Said::Stalled { .. } => {}
        }
        if self.last_words.get(&line.process) == Some(&place) {
            self.buries(line.process);
        }
    }

    /// A change that is about to be committed, if it was.
    fn writing(&mut self, seen: &Seen) {
        let place = (seen.key, seen.revision);
        if self.tokens.get(&place) != Some(&seen.token) || !self.told_of.insert(place) {
            return;
        }
        let feeds = if self.exact { vec![TOLD, EXACT] } else { vec![TOLD] };
        for feed in feeds {
            let (key, change) = (object(feed, seen.key), number(feed, seen.key, seen.revision));
            self.push(0, What::Committed { feed, partition: 0, key, change });
        }
    }

    fn begins(&mut self, line: &Line, seen: &Seen) {
        self.calls += 1;
        let (call, change) = (self.calls, self.change(TOLD, seen));
        self.open_calls.entry(line.process).or_default().push((call, seen.key));
        let began = What::Began { call, feed: TOLD, partition: 0, epoch: 0, changes: vec![change] };
        self.push(line.machine, began);
        let prev = match seen.link.1 {
            0 => None,
            prev => Some(self.by_id.get(&prev).copied().unwrap_or(prev)),
        };
        if self.chained && change == number(TOLD, seen.key, seen.revision) {
            self.push(line.machine, What::Linked { change, prev });
        }
    }

    fn ends(&mut self, line: &Line, seen: &Seen, how: impl Fn(u64, u64) -> What) {
        let open = self.open_calls.entry(line.process).or_default();
        let Some(place) = open.iter().position(|(_, key)| *key == seen.key) else { return };
        let (call, _) = open.remove(place);
        let change = self.change(TOLD, seen);
        self.push(line.machine, how(call, change));
        self.push(line.machine, What::Ended { call });
    }

    /// Nothing is heard of a process any more: whatever it was at is over.
    fn buries(&mut self, process: u32) {
        for (call, _) in self.open_calls.remove(&process).unwrap_or_default() {
            self.push(0, What::Ended { call });
        }
    }

    /// An object that was poisoned has failed, in every feed.
    fn cured(&mut self) {
        for key in self.poisoned.clone() {
            for feed in [TOLD, EXACT] {
                self.push(0, What::Failed { call: 0, change: number(feed, key, 1) });
            }
        }
        self.push(0, What::Cured);
    }
}

#[cfg(test)]
mod tests;
