//! A part of a batch that is still to be done, and how it is taken apart until the culprit is alone.

use std::collections::HashSet;

use crate::change::{Change, Position};

/// A part of a batch that is still to be done.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub changes: Vec<Change>,
    /// The place of the first of them in the batch.
    pub from: usize,
    /// How often it has failed.
    pub failed: u32,
    /// How often it found the target away.
    pub away: u32,
    /// How often anything had succeeded when it first failed.
    pub since: Option<u64>,
    /// Where the partition stands when this piece is done.
    pub upto: Position,
}

impl Piece {
    /// Leaves the culprit and what is not done after it.
    pub fn drop_done(&mut self, culprit: usize, done: &[usize]) {
        let mut place = 0..;
        let done: HashSet<usize> = done.iter().copied().filter(|done| *done > culprit).collect();
        self.changes.retain(|_| place.next().is_some_and(|place| place >= culprit && !done.contains(&place)));
        self.from += culprit;
    }

    /// Puts the two halves back, the first one on top.
    pub fn halve(self, todo: &mut Vec<Piece>) {
        let middle = self.changes.len() / 2;
        self.put_back(&[middle], todo);
    }

    /// Puts its parts back, the first one on top: what comes before the culprit, the culprit and the rest, or else two halves.
    pub fn split(self, culprit: Option<usize>, todo: &mut Vec<Piece>) {
        match culprit {
            Some(culprit) => self.put_back(&[culprit + 1, culprit], todo),
            None => self.halve(todo),
        }
    }

    /// Puts the parts between these places back, the first one on top. The places are given from the last on.
    fn put_back(mut self, places: &[usize], todo: &mut Vec<Piece>) {
        for place in places {
            let rest = self.changes.split_off(*place);
            if rest.is_empty() {
                continue;
            }
            let from = self.from + self.changes.len();
            let before = self.changes.last().map_or(&self.upto, |change| &change.position).clone();
            let upto = std::mem::replace(&mut self.upto, before);
            todo.push(Piece { changes: rest, from, failed: 0, away: self.away, since: self.since, upto });
        }
        if !self.changes.is_empty() {
            todo.push(Piece { failed: 0, ..self });
        }
    }

    /// The first change alone; the others are put back.
    pub fn single_out_first(mut self, todo: &mut Vec<Piece>) -> Piece {
        let rest = self.changes.split_off(1);
        let upto = self.changes[0].position.clone();
        let Piece { from, away, since, .. } = self;
        todo.push(Piece { changes: rest, from: from + 1, failed: 0, away, since, upto: self.upto });
        Piece { changes: self.changes, from, failed: 0, away, since, upto }
    }
}
