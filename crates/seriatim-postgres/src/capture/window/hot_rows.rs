//! Rows that change more often than the buffer, and so are never old enough.
//!
//! Such a row is delivered ahead of its time once it has been too young at two looks, twice the buffer apart, and has changed in
//! between. The place does not move for it, so nothing is lost by that. The version that was delivered is noted in the
//! position, so that it is not delivered again should the row come to rest in it. That it may be seen before an older row of
//! another key does not matter: the order is each key's own.

use jiff::Timestamp;
use seriatim::backend::HotRows;
use seriatim::backend::Packer;
use seriatim::value::Key;
use tokio_postgres::types::ToSql;

use super::super::error::Fault;
use super::moment::EARLIEST;
use super::pass::{Pass, Walk};
use super::relation::{Read, Reading};

/// More versions than this are not noted in a position; other rows wait for their turn.
const MOST_EARLY: usize = 100;

/// Of more rows than this, only the youngest are looked at: those that change all the time are among them.
const MOST_YOUNG: usize = 50_000;

/// A row that is too young.
struct Young {
    tie: Vec<String>,
    identity: u64,
    at: Timestamp,
}

/// Delivers the rows that have waited too long, those first that have waited longest.
pub(super) async fn deliver(
    walk: &mut Walk,
    pass: &Pass<'_>,
    memory: &mut HotRows<u64>,
    now: Timestamp,
) -> Result<(), Fault> {
    let Some(separator) = pass.separator(&walk.at.place).await? else { return Ok(()) };
    let least = pass.relation.kind.least(pass.finish.max(EARLIEST), separator);
    let young = all_young(pass, &least).await?;
    let waited = memory.look(now, young.iter().map(|row| (row.identity, row.at)));
    let mut waiting: Vec<(Timestamp, &Young)> =
        waited.into_iter().zip(&young).filter_map(|(since, row)| Some((since?, row))).collect();
    waiting.sort_by_key(|(since, _)| *since);
    waiting.truncate(MOST_EARLY.saturating_sub(walk.at.mark.early.len()));
    if waiting.is_empty() {
        return Ok(());
    }
    let column = |index: usize| waiting.iter().map(|(_, row)| row.tie[index].clone()).collect();
    let ties: Vec<Vec<String>> = (0..pass.relation.ties()).map(column).collect();
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&least];
    parameters.extend(ties.iter().map(|list| list as &(dyn ToSql + Sync)));
    let statement = pass.transaction.prepare_cached(&pass.relation.with_ties()).await?;
    // As they are now: who has changed again in between is delivered as it has become.
    for row in pass.transaction.query(&statement, &parameters).await? {
        let (Ok(at), Some(tie)) = (pass.moment(&row, Read::Rows), pass.tie(&row, Read::Rows)) else {
            continue;
        };
        pass.pack(walk, &row);
        let id = walk.version();
        if !walk.at.mark.has(id) && pass.is_wanted(walk) {
            walk.at.mark.early.push((at, id));
            pass.deliver(walk, at, id);
            memory.forget(&identity(&tie));
        }
    }
    Ok(())
}

async fn all_young(pass: &Pass<'_>, least: &str) -> Result<Vec<Young>, Fault> {
    let reading = Reading { sql: pass.relation.latest(MOST_YOUNG), parameters: vec![least.to_owned()] };
    let rows = pass.query(&reading).await?;
    let young = rows.iter().filter_map(|row| {
        let (at, tie) = (pass.moment(row, Read::Places).ok()?, pass.tie(row, Read::Places)?);
        Some(Young { identity: identity(&tie), tie, at })
    });
    Ok(young.collect())
}

/// Which row it is, from one look to the next.
fn identity(tie: &[String]) -> u64 {
    let mut packer = Packer::default();
    tie.iter().for_each(|value| packer.text(value));
    Key::hash_of(packer.since(0))
}
