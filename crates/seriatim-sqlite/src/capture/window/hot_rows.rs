//! Rows that change more often than the buffer, and so are never old enough.
//!
//! Such a row is delivered ahead of its time once it has been too young at two looks, twice the buffer apart, and has changed in
//! between. The place does not move for it, so nothing is lost by that. The version that was delivered is noted in the
//! position, so that it is not delivered again should the row come to rest in it.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use seriatim::backend::HotRows;
use seriatim::backend::Packer;
use seriatim::backend::rows::separator;
use seriatim::value::Key;

use super::super::error::Fault;
use super::super::slices::Stepped;
use super::super::value::Exact;
use super::moment::least;
use super::pass::{Pass, Walk};
use super::place::Place;
use super::relation::Read;

/// More versions than this are not noted in a position; other rows wait for their turn.
const MOST_EARLY: usize = 100;

/// More rows than this are not looked at in one look.
const MOST_YOUNG: usize = 250_000;

/// Delivers the rows that have waited too long, those first that have waited longest.
pub(super) fn deliver(
    walk: &mut Walk<'_>,
    pass: &Pass<'_>,
    memory: &mut HotRows<u64>,
    horizon: Timestamp,
) -> Result<(), Fault> {
    let mut young: Vec<(u64, Timestamp)> = Vec::new();
    each_young(walk, pass, |_, row, at| {
        young.push((identity(pass, row), at));
        Ok(ControlFlow::Continue(()))
    })?;
    let waited = memory.look(horizon, young.iter().copied());
    let mut waiting: Vec<(Timestamp, usize)> =
        waited.into_iter().enumerate().filter_map(|(index, since)| Some((since?, index))).collect();
    waiting.sort();
    waiting.truncate(MOST_EARLY.saturating_sub(walk.at.mark.early.len()));
    let chosen: BTreeSet<usize> = waiting.into_iter().map(|(_, index)| index).collect();
    let Some(last) = chosen.last().copied() else { return Ok(()) };
    let (mut index, mut served) = (0, HashSet::new());
    each_young(walk, pass, |walk, row, at| {
        if chosen.contains(&index) {
            let id = walk.version(row);
            if !walk.at.mark.has(id) && walk.wanted(row)?.is_some() {
                walk.at.mark.early.push((at, id));
                walk.deliver(row, at, id)?;
                served.insert(young[index].0);
            }
        }
        index += 1;
        Ok(if index > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    served.iter().for_each(|row| memory.forget(row));
    Ok(())
}

/// Steps over the rows that are too young.
fn each_young(
    walk: &mut Walk<'_>,
    pass: &Pass<'_>,
    mut each: impl FnMut(&mut Walk<'_>, &Stepped<'_>, Timestamp) -> Result<ControlFlow<()>, Fault>,
) -> Result<(), Fault> {
    let place = walk.at.place.clone();
    let step = |row: &Stepped<'_>| {
        // One that is no moment is told when its turn comes.
        let Ok(at) = walk.moment(row) else { return Ok(ControlFlow::Continue(())) };
        if at >= pass.finish { each(walk, row, at) } else { Ok(ControlFlow::Continue(())) }
    };
    let stepped = match &place {
        Place::Row(row) => {
            let separator = if let Exact::Text(text) = &row.raw { separator(text) } else { None };
            let first = least(pass.finish, pass.settings.unit, separator);
            pass.step_from(&first, Read::Rows, MOST_YOUNG, step)
        }
        // No row is old enough yet, so there is nothing to skip.
        place => pass.step(place, Read::Rows, MOST_YOUNG, step),
    };
    stepped.map(drop)
}

/// Which row it is, from one look to the next.
fn identity(pass: &Pass<'_>, row: &Stepped<'_>) -> u64 {
    let mut packer = Packer::default();
    pass.relation.tie.iter().for_each(|index| row.pack(*index, &mut packer));
    Key::hash_of(packer.since(0))
}
