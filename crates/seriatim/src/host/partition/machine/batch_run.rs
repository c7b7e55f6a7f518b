//! A batch from its first call until each of its changes is done or given up.
//!
//! ```text
//!   whole ──call──▶ done
//!     │ failed
//!     ▼
//!   halves, or what the handler says is the culprit ──call──▶ … ──▶ one change alone: the table of failures
//! ```
//!
//! A failed batch is halved until the culprit is alone, unless the handler named it. The culprit then steps aside so that
//! nobody waits for it: its object is parked, to be tried again after a pause or, after the last attempt, for good. Or it is
//! skipped, or stops the feed. Changes of an object that was parked on the way are not tried: they wait behind it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::failure_log::Told;
use super::failures::{Blame, Verdict, verdict};
use super::lanes::Batch;
use super::parked::after;
use super::piece::Piece;
use super::{Answer, At, Called, Closed, Done, Rules, Target};
use crate::change::{Change, Position};
use crate::handler::{Failure, FailureKind, Then};
use crate::order::EventId;
use crate::store::{Chained, Checkpoint, CheckpointError, ParkedFailure, ParkedState, Parking};

/// So many calls with the same changes find the target away before another object finds out.
const PROBES_OF_ONE: u32 = 3;

/// What is to be done next with a batch.
#[derive(Debug)]
pub(super) enum Step {
    /// Give these changes to the handler. The checkpoint is where the partition is then.
    Call { changes: Vec<Change>, then: Checkpoint, attempt: u32 },
    /// Make durable that a change is parked or skipped.
    GiveUp(Checkpoint),
    /// Wait until this moment.
    Pause(Instant),
    /// Every change is handled, skipped, or to be parked.
    Finished,
    /// Some are not done: the host is closing, or the feed is to stop for this reason.
    Unfinished { ids: HashSet<u64>, stop: Option<String> },
    /// Nothing of this counts any more.
    Closed(Closed),
}

/// What happened on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Changes whose objects are parked, in order. With a transactional handler they are in the store already.
    pub parked: Vec<Parking>,
    /// Changes that were dropped, as asked for.
    pub skipped: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// After which pause those objects are tried again that stepped aside, by their lanes; and how often anything had succeeded
    /// when they first failed.
    pub again: BTreeMap<u64, (Duration, u64)>,
    /// Changes that were given to the handler once more.
    pub redelivered: u64,
    /// With manual acknowledgement: what the handler has done and acknowledged.
    pub acked: Acked,
}

/// What a handler has done, in order, and how much of it it has acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Acked {
    /// The ids of the changes that it has handled.
    pub done: Vec<u64>,
    /// It has acknowledged so many of them, and all that came before.
    pub upto: Option<usize>,
}

impl Acked {
    /// A call has handled these changes; then, or on the way, the handler acknowledged so many of the call's changes.
    fn note<'a>(&mut self, done: impl Iterator<Item = &'a Change>, acked: Option<usize>) {
        let before = self.done.len();
        self.done.extend(done.map(|change| change.id));
        if let Some(acked) = acked {
            self.upto = Some(before.saturating_add(acked).min(self.done.len()));
        }
    }
}

/// What a batch needs to know to go on.
pub(super) struct Around<'a> {
    pub rules: &'a Rules,
    pub at: At,
    pub target: &'a mut Target,
    /// No further attempt begins.
    pub closing: bool,
}

/// A batch that is under way.
#[derive(Clone, Debug)]
pub(super) struct BatchRun {
    /// The batch. Its changes are with the first call while that runs.
    pub batch: Batch,
    /// Where the partition stands when all of it is done.
    pub upto: Position,
    pub tally: Tally,
    /// Later changes of objects that were parked before, by their numbers. Each goes into the first commit that passes it:
    /// into a later one, it would be lost in a crash between them; into an earlier one, it could be handled where it is parked
    /// and once more after a crash.
    aside: BTreeMap<u64, Parking>,
    /// What is left to do, the next piece last.
    todo: Vec<Piece>,
    /// The piece that is with the handler, or being given up. The whole batch before its first call is over.
    current: Option<Piece>,
    /// The change that is being given up is to be parked so.
    parking: Option<Parking>,
    /// Objects that were parked on the way.
    parked: BTreeSet<u64>,
    /// When the change that is being given up is tried again by itself.
    next_try: Option<Timestamp>,
}

impl BatchRun {
    /// The run of a batch, and its first call. `aside` goes into the store with the commits that pass it.
    pub fn begin(
        mut batch: Batch,
        upto: Position,
        aside: BTreeMap<u64, Parking>,
        rules: &Rules,
    ) -> (Self, Step) {
        // The usual case, without a copy of anything.
        let changes = std::mem::take(&mut batch.changes);
        let current =
            Some(Piece { changes: Vec::new(), from: 0, failed: 0, away: 0, since: None, upto: upto.clone() });
        let (todo, parked, tally, parking) = (Vec::new(), BTreeSet::new(), Tally::default(), None);
        let run = BatchRun { batch, upto, tally, aside, todo, current, parking, parked, next_try: None };
        let then = run.checkpoint(&changes, &run.upto, u64::MAX, None, rules);
        (run, Step::Call { changes, then, attempt: 1 })
    }

    /// The number of a change of the call that runs.
    pub fn number_of(&self, Done { place, id }: Done) -> Option<u64> {
        // The first call has all changes in their order, and has them with it; a later one has what is left.
        let place = match self.batch.changes.is_empty() {
            true => place,
            false => self.batch.changes.iter().position(|change| change.id == id)?,
        };
        self.batch.numbers().get(place).copied()
    }

    /// A call has ended.
    pub fn called(&mut self, called: Called, around: &mut Around<'_>) -> Step {
        let Called { changes, answer, acked } = called;
        if around.rules.manual_ack {
            let done = match &answer {
                Answer::Done => changes.len(),
                Answer::Failed(failure) => failure.culprit.unwrap_or(0).min(changes.len()),
                _ => 0,
            };
            self.tally.acked.note(changes[..done].iter(), acked);
        }
        let Some(mut piece) = self.current.take() else { return Step::Finished };
        let passed = self.passed_by(piece.from, changes.len());
        // The whole batch was with the handler, for the first time.
        let is_whole = self.batch.changes.is_empty();
        match answer {
            Answer::Done => {
                self.aside = self.aside.split_off(&passed);
                around.target.is_there();
                if is_whole {
                    self.batch.changes = changes;
                }
                self.next(around)
            }
            Answer::Closed(closed) => Step::Closed(closed),
            Answer::NotBegun | Answer::Failed(_) => {
                piece.changes = match is_whole {
                    true => self.keep_whole(changes),
                    false => changes,
                };
                match answer {
                    Answer::Failed(failure) => self.failed(piece, failure, around),
                    _ => self.unfinished(piece, None),
                }
            }
        }
    }

    /// A change was parked or skipped for good.
    pub fn gave_up(&mut self, result: Result<(), CheckpointError>, around: &mut Around<'_>) -> Step {
        if let Err(error) = result {
            return Step::Closed(Closed::of_checkpoint(error));
        }
        if let Some(piece) = self.current.take() {
            self.aside = self.aside.split_off(&self.passed_by(piece.from, 1));
        }
        self.tally.parked.extend(self.parking.take());
        self.next(around)
    }

    /// Goes on with what is left to do.
    pub fn next(&mut self, around: &mut Around<'_>) -> Step {
        while let Some(piece) = self.todo.pop() {
            if around.closing {
                return self.unfinished(piece, None);
            }
            // With an object parked on the way, its later changes have to be taken out one by one.
            if piece.changes.iter().any(|change| self.parked.contains(&change.lane())) {
                if piece.changes.len() > 1 {
                    piece.halve(&mut self.todo);
                } else if let Some(step) = self.park(piece, None, around.rules) {
                    return step;
                }
                continue;
            }
            self.tally.redelivered += piece.changes.len() as u64;
            return self.call(piece, around.rules);
        }
        Step::Finished
    }

    /// The batch keeps its changes, and the piece gets a copy to be taken apart.
    fn keep_whole(&mut self, changes: Vec<Change>) -> Vec<Change> {
        self.batch.changes = changes;
        self.batch.changes.clone()
    }

    fn call(&mut self, mut piece: Piece, rules: &Rules) -> Step {
        let changes = std::mem::take(&mut piece.changes);
        let passed = self.passed_by(piece.from, changes.len());
        let then = self.checkpoint(&changes, &piece.upto, passed, None, rules);
        let attempt = piece.failed + 1;
        self.current = Some(piece);
        Step::Call { changes, then, attempt }
    }

    fn failed(&mut self, mut piece: Piece, failure: Failure, around: &mut Around<'_>) -> Step {
        self.tally.failures += 1;
        #[cfg(feature = "simulation")]
        if piece.changes.len() > 1 && crate::simulation::has(crate::simulation::Mutant::FailedBatchCounts) {
            return self.next(around);
        }
        let named = failure.culprit.filter(|culprit| *culprit < piece.changes.len());
        let (named, undone) = if around.rules.transactional { (None, named) } else { (named, None) };
        if let Some(culprit) = named {
            // What is done shows that the target is there: one poison in every batch is no outage.
            if culprit > 0 || !failure.done.is_empty() {
                around.target.is_there();
            }
            if around.rules.manual_ack {
                let later = failure.done.iter().filter(|done| **done > culprit);
                let later = later.filter_map(|done| piece.changes.get(*done));
                self.tally.acked.note(later, None);
            }
            piece.drop_done(culprit, &failure.done);
        }
        let since = *piece.since.get_or_insert(around.target.successes());
        if failure.kind == FailureKind::Target && !around.target.has_succeeded_since(since) {
            around.target.is_gone(since, &failure, around.at);
            return self.found_it_away(piece, failure, around);
        }
        around.target.call_failed(since, &failure, around.at);
        match named {
            _ if piece.changes.len() == 1 => self.failed_alone(piece, failure, around),
            Some(_) => {
                let single = piece.single_out_first(&mut self.todo);
                self.failed_alone(single, failure, around)
            }
            None => {
                piece.split(undone, &mut self.todo);
                self.next(around)
            }
        }
    }

    /// The target is away. The same changes find out whether it is back, for a few times. Then it may be their first object that
    /// it cannot bear: that one steps aside, and each time another one finds out.
    fn found_it_away(&mut self, mut piece: Piece, failure: Failure, around: &mut Around<'_>) -> Step {
        piece.away += 1;
        if piece.away < PROBES_OF_ONE {
            self.todo.push(piece);
            return self.next(around);
        }
        let single = if piece.changes.len() == 1 { piece } else { piece.single_out_first(&mut self.todo) };
        self.failed_alone(single, failure, around)
    }

    /// A single change failed.
    fn failed_alone(&mut self, piece: Piece, failure: Failure, around: &mut Around<'_>) -> Step {
        let failed = piece.failed + 1;
        let (lease, change) = (&around.rules.lease, &piece.changes[0]);
        let (id, since) = (change.id, piece.since.unwrap_or(around.target.successes()));
        let told = Told { lease, change, failure: &failure, failed };
        // A change of everything has no object that could step aside.
        let has_object = change.key.is_some();
        if has_object {
            around.target.failed_for(change.lane(), since, &failure, around.at);
        }
        let given_up = match around.verdict(&failure, failed, since) {
            Verdict::Again(pause) => {
                told.tried_again(pause, around.blame(since));
                if !has_object {
                    self.todo.push(Piece { failed, ..piece });
                    return Step::Pause(around.at.now + pause);
                }
                self.tally.again.insert(change.lane(), (pause, since));
                self.park(piece, Some((failure, failed, ParkedState::Retrying)), around.rules)
            }
            Verdict::GiveUp(Then::Skip) => {
                told.skipped();
                self.tally.skipped += 1;
                self.give_up(piece, None, around.rules)
            }
            Verdict::GiveUp(Then::Park) if has_object => {
                let pause = around.rules.heal.pauses.map(|pauses| pauses.first);
                told.parked(pause);
                self.next_try = pause.and_then(|pause| after(around.at, pause));
                self.park(piece, Some((failure, failed, ParkedState::Parked)), around.rules)
            }
            Verdict::GiveUp(Then::Park | Then::Stop) => {
                let why = format!("change {id} at position {} failed: {failure}", change.position);
                return self.unfinished(piece, Some(why));
            }
        };
        given_up.unwrap_or_else(|| self.next(around))
    }

    fn park(
        &mut self,
        piece: Piece,
        failure: Option<(Failure, u32, ParkedState)>,
        rules: &Rules,
    ) -> Option<Step> {
        let failure = failure.map(|(failure, attempts, state)| ParkedFailure {
            error: failure.to_string(),
            attempts,
            state,
            next_try: self.next_try.take(),
        });
        // It may be long until a checkpoint passes it; the changes that it came with do not wait in memory for that.
        let change = piece.changes[0].apart();
        self.parked.insert(change.lane());
        self.give_up(piece, Some(Parking { change, failure }), rules)
    }

    /// The one change of a piece is not handled. Where effects are durable one by one, that has to be made durable too.
    fn give_up(&mut self, piece: Piece, parking: Option<Parking>, rules: &Rules) -> Option<Step> {
        if !rules.transactional {
            self.tally.parked.extend(parking);
            return None;
        }
        let passed = self.passed_by(piece.from, 1);
        let then = self.checkpoint(&piece.changes, &piece.upto, passed, parking.clone(), rules);
        self.parking = parking;
        self.current = Some(piece);
        Some(Step::GiveUp(then))
    }

    /// The batch is not worked off any further; this piece and what is left are not done.
    fn unfinished(&mut self, piece: Piece, stop: Option<String>) -> Step {
        let pieces = self.todo.iter().chain(std::iter::once(&piece));
        let ids = pieces.flat_map(|piece| &piece.changes).map(|change| change.id).collect();
        Step::Unfinished { ids, stop }
    }

    /// All that is set aside before this number is passed by a commit of `count` changes from this place in the batch on.
    fn passed_by(&self, from: usize, count: usize) -> u64 {
        let (end, numbers) = (from + count, self.batch.numbers());
        if end >= numbers.len() { u64::MAX } else { numbers[end.saturating_sub(1)] }
    }

    /// The checkpoint that passes these changes: it parks what it passes, and names the last change of each object.
    fn checkpoint(
        &self,
        changes: &[Change],
        upto: &Position,
        passed: u64,
        parking: Option<Parking>,
        rules: &Rules,
    ) -> Checkpoint {
        if !rules.transactional {
            return Checkpoint::at(upto.clone());
        }
        let aside = self.aside.range(..passed).map(|(_, parking)| parking.clone());
        let then = Checkpoint::parking(upto.clone(), aside.chain(parking).collect());
        if rules.chain { chained(changes, then) } else { then }
    }
}

impl Around<'_> {
    /// What the table of failures says of a change that failed so often, for the first time after so many successes.
    pub fn verdict(&self, failure: &Failure, failed: u32, since: u64) -> Verdict {
        verdict(&self.rules.retry, failure, failed, self.blame(since), self.at.jitter)
    }

    /// Whose fault it may be that an object fails since there were so many successes.
    pub fn blame(&self, since: u64) -> Blame {
        match self.target.may_be_to_blame(since) {
            true => Blame::PerhapsTarget,
            false => Blame::Object,
        }
    }
}

/// The checkpoint, with the last change of each object among those it passes: these, and what it parks.
fn chained(changes: &[Change], mut then: Checkpoint) -> Checkpoint {
    let mut last: BTreeMap<String, Chained> = BTreeMap::new();
    let parked = then.parked.iter().map(|parking| &parking.change);
    for change in changes.iter().chain(parked) {
        let Some(key) = &change.key else { continue };
        let chained = Chained { key: key.clone(), id: change.id };
        let known = last.entry(key.identity()).or_insert_with(|| chained.clone());
        // In one pass over a feed, the ids of an object rise.
        if EventId(known.id).in_chain() < EventId(change.id).in_chain() {
            *known = chained;
        }
    }
    then.chained = last.into_values().collect();
    then
}
