//! What was noted in a run is judged as it should be: good runs are accepted, and each kind of bad one is rejected.

use super::*;
use crate::sim::check;

fn seen(key: u32, revision: u64) -> Seen {
    let id = |revision: u64| if revision == 0 { 0 } else { u64::from(key) * 1000 + revision };
    Seen { key, revision, token: format!("t{revision}"), link: (id(revision), id(revision - 1)) }
}

/// A run of which these things were noted, a second apart, by the processes of these machines.
struct Run {
    lines: Vec<Line>,
    facts: Facts,
}

impl Run {
    fn new() -> Self {
        let facts = Facts { exact: true, chained: true, ..Facts::default() };
        let mut run = Run { lines: Vec::new(), facts };
        run.note(1, Said::Started { name: "a".to_owned() });
        run.note(2, Said::Started { name: "b".to_owned() });
        run
    }

    fn note(&mut self, machine: u32, said: Said) {
        let at = (self.lines.len() as u64 + 1) * 1_000_000;
        self.lines.push(Line { at, machine, process: 100 + machine, said });
    }

    fn commits(&mut self, key: u32, revision: u64) {
        self.note(0, Said::Writing(seen(key, revision)));
        self.facts.committed.push(seen(key, revision));
    }

    fn handles(&mut self, machine: u32, key: u32, revision: u64) {
        self.note(machine, Said::Began(seen(key, revision)));
        self.note(machine, Said::Handled(seen(key, revision)));
    }

    fn takes_effect(&mut self, key: u32, revision: u64) {
        let at = self.lines.len() as u64 * 1000;
        self.facts.effects.push((at, seen(key, revision)));
    }

    /// Two changes, handled as they should be.
    fn good() -> Self {
        let mut run = Run::new();
        for revision in 1..=2 {
            run.commits(3, revision);
            run.handles(1, 3, revision);
            run.takes_effect(3, revision);
        }
        run
    }

    fn verdict(mut self) -> String {
        [Said::Calm, Said::Cured, Said::Over].into_iter().for_each(|said| self.note(0, said));
        let history = history(&self.lines, &self.facts);
        check::all(&history).map_or_else(|| "fine".to_owned(), |violation| violation.to_string())
    }
}

#[track_caller]
fn rejects(says: &str, run: Run) {
    let verdict = run.verdict();
    assert!(verdict.contains(says), "{verdict}");
}

#[test]
fn a_good_run_is_accepted() {
    assert_eq!(Run::good().verdict(), "fine");
    let mut late = Run::good();
    late.note(0, Said::Writing(Seen { token: "rolled-back".to_owned(), ..seen(3, 3) }));
    assert_eq!(late.verdict(), "fine", "what was not committed need not be handled");
}

#[test]
fn what_was_lost_in_either_feed_is_found() {
    let mut untold = Run::good();
    untold.commits(3, 3);
    untold.takes_effect(3, 3);
    rejects("change 3000003", untold);
    let mut without_effect = Run::good();
    without_effect.commits(3, 3);
    without_effect.handles(1, 3, 3);
    rejects("change 1003000003", without_effect);
}

#[test]
fn an_effect_that_happened_twice_is_found() {
    let mut run = Run::good();
    run.note(1, Said::Killed);
    run.takes_effect(3, 2);
    rejects("happened twice", run);
}

#[test]
fn what_was_rolled_back_and_handled_all_the_same_is_found() {
    let mut run = Run::good();
    run.note(1, Said::Began(Seen { token: "rolled-back".to_owned(), ..seen(3, 2) }));
    run.note(1, Said::Handled(Seen { token: "rolled-back".to_owned(), ..seen(3, 2) }));
    rejects("not committed", run);
}

#[test]
fn overtaking_is_found_in_both_feeds() {
    let mut told = Run::good();
    told.facts.chained = false;
    told.commits(3, 3);
    told.commits(3, 4);
    told.handles(1, 3, 4);
    rejects("change 3000004 was handled before change 3000003", told);
    let mut exact = Run::good();
    exact.commits(3, 3);
    exact.commits(3, 4);
    exact.takes_effect(3, 4);
    exact.takes_effect(3, 3);
    rejects("change 1003000004 was handled before change 1003000003", exact);
}

#[test]
fn a_broken_chain_is_found() {
    let mut run = Run::good();
    run.commits(3, 3);
    run.note(1, Said::Began(Seen { link: (3003, 3001), ..seen(3, 3) }));
    rejects("says that it follows", run);
}

#[test]
fn two_hosts_at_one_object_are_found_unless_one_of_them_stood_still() {
    let at_once = |before: Option<Said>| {
        let mut run = Run::good();
        run.commits(3, 3);
        run.note(1, Said::Began(seen(3, 3)));
        before.into_iter().for_each(|said| run.note(1, said));
        run.handles(2, 3, 3);
        run.note(1, Said::Handled(seen(3, 3)));
        run.takes_effect(3, 3);
        run
    };
    rejects("at the same object", at_once(None));
    for excuse in [Said::Paused, Said::Killed, Said::Stalled { millis: 200 }] {
        assert_eq!(at_once(Some(excuse)).verdict(), "fine");
    }
}

#[test]
fn what_a_dead_process_was_at_is_over() {
    let mut run = Run::good();
    run.commits(3, 3);
    run.note(1, Said::Began(seen(3, 3)));
    run.handles(2, 3, 3);
    run.takes_effect(3, 3);
    assert_eq!(run.verdict(), "fine");
}

#[test]
fn what_comes_again_after_all_hosts_ended_in_order_is_found() {
    let mut run = Run::good();
    run.handles(2, 3, 2);
    run.note(0, Said::Over);
    assert_eq!(Run { lines: run.lines.clone(), facts: run.facts.clone() }.verdict(), "fine");
    run.handles(2, 3, 2);
    rejects("came again", run);
}

#[test]
fn an_object_that_waits_for_no_reason_is_found() {
    let waits = |poisoned: bool| {
        let mut run = Run::good();
        run.commits(4, 1);
        if poisoned {
            run.note(0, Said::Poisoned { key: 4 });
        }
        run.note(0, Said::Cured);
        run.handles(1, 4, 1);
        run.takes_effect(4, 1);
        run
    };
    rejects("which never failed", waits(false));
    assert_eq!(waits(true).verdict(), "fine");
}

#[test]
fn a_timeline_shows_the_objects_of_a_sentence_and_what_happened_to_processes() {
    let mut run = Run::good();
    run.commits(5, 1);
    run.note(1, Said::Killed);
    let entries = about(&history(&run.lines, &run.facts), "change 5000001 was lost", 100);
    let shown = crate::sim::timeline::timeline(&entries, usize::MAX);
    assert!(shown.contains("change 5000001") && shown.contains("CRASHES"), "{shown}");
    assert!(!shown.contains("3000001"), "{shown}");
}
