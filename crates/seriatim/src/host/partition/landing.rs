//! What follows when a batch comes back from the handler.

use std::collections::HashSet;

use super::{Batch, Closed, Ran, Running, Tally};
use crate::change::Position;
use crate::clock;

impl Running {
    pub(super) fn landed(&mut self, batch: Batch, upto: Position, ran: Ran) -> Option<Closed> {
        match ran {
            Ran::Finished(tally) => self.finished(batch, upto, tally),
            Ran::Interrupted { unfinished, tally } => self.gave_up(batch, &unfinished, tally),
            Ran::Stopped { change, error, unfinished, tally } => {
                let why = format!("change {} at position {} failed: {error}", change.id, change.position);
                self.stopping.get_or_insert(why);
                self.gave_up(batch, &unfinished, tally);
            }
            Ran::Lost { why } => return Some(Closed::Lost(why)),
            Ran::Broken { why } => return Some(Closed::Failed(why)),
        }
        None
    }

    fn finished(&mut self, batch: Batch, upto: Position, tally: Tally) {
        self.count(&batch, &HashSet::new(), &tally);
        self.note_parked(&tally);
        self.note_word(&batch, &tally);
        if self.is_transactional() {
            // What was parked on the way is in the store already: only its objects are to be remembered.
            tally.parked.iter().for_each(|parking| self.lanes.park(parking.change.lane()));
            self.lanes.complete(batch, Vec::new());
            self.objects.all_stored();
            self.saved = upto;
            self.saved_at = clock::now();
            self.saved_upto = self.lanes.passed();
            self.setup.feed.stats.count_checkpoint();
            self.chain.saved(self.saved_upto);
        } else {
            self.lanes.complete(batch, tally.parked);
            self.worked = true;
        }
        self.tell_when_caught_up();
    }

    /// Remembers which objects were parked on the way, and when those that only stepped aside are due.
    fn note_parked(&mut self, tally: &Tally) {
        let now = clock::now();
        for parking in &tally.parked {
            let Some(key) = &parking.change.key else { continue };
            match self.is_transactional() {
                true => self.note_kept(parking),
                // Its changes are counted when a checkpoint takes them.
                false => self.objects.open(key),
            }
            if parking.steps_aside() {
                let pause = tally.again.get(&parking.change.lane()).copied().unwrap_or_default();
                self.objects.try_again(key, now + pause);
                self.objects.fails_since(key, self.setup.feed.target.successes());
            }
        }
    }

    /// The batch did not get to its end: what it did counts, unless the store knows that better.
    fn gave_up(&mut self, batch: Batch, unfinished: &HashSet<u64>, tally: Tally) {
        self.count(&batch, unfinished, &tally);
        self.note_word(&batch, &tally);
        if self.is_transactional() {
            self.store_knows_better = true;
        } else {
            self.note_parked(&tally);
            self.lanes.abandon(batch, unfinished, tally.parked);
            self.worked = true;
        }
    }

    fn count(&mut self, batch: &Batch, unfinished: &HashSet<u64>, tally: &Tally) {
        let done = (batch.changes.len() - unfinished.len()) as u64;
        let handled = done - tally.parked.len() as u64 - tally.skipped;
        self.done += done;
        let stats = &self.setup.feed.stats;
        stats.count(handled, 0, tally.skipped, tally.failures);
        stats.count_redelivered(tally.redelivered);
        let not_handled: HashSet<u64> = tally.parked.iter().map(|parking| parking.change.id).collect();
        let handled = batch.changes.iter().filter(|change| {
            let id = &change.id;
            (unfinished.is_empty() || !unfinished.contains(id))
                && (not_handled.is_empty() || !not_handled.contains(id))
        });
        stats.count_times(handled.map(|change| change.at), clock::wall());
    }
}
