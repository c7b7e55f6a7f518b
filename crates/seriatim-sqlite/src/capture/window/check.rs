//! Whether a window can work, before it runs: its columns, its moments, and the index that it needs.

use jiff::Timestamp;
use rusqlite::Connection;
use seriatim::source::{Blocker, Limit};

use super::super::error::Fault;
use super::super::slices::Slices;
use super::super::value::Exact;
use super::pass::Pass;
use super::place::{Place, RowPlace, WindowPosition};
use super::relation::{Read, Relation};
use super::settings::Settings;

/// Reads the first row.
pub(super) fn check(connection: &Connection, settings: &Settings, relation: &Relation) -> Result<(), Fault> {
    if let Some(wrong) = settings.rules.wrong() {
        return Err(settings.wrong_rules(&wrong).into());
    }
    let (finish, stale_before) = (Timestamp::MAX, Timestamp::MIN);
    let pass = Pass { connection, settings, relation, sieve: None, finish, stale_before, until: None };
    let slices =
        Slices::new(&settings.names.feed, settings.partitions, &[], Limit { rows: 1, bytes: usize::MAX });
    // A row that no window could read is told here.
    drop(pass.walk(WindowPosition::at(Place::Beginning), slices, Limit { rows: 1, bytes: usize::MAX })?);
    Ok(())
}

/// Looks for the index without which every look reads all rows.
pub(super) fn missing_index(
    connection: &Connection,
    settings: &Settings,
    relation: &Relation,
) -> Result<Vec<Blocker>, Fault> {
    // The values do not matter for the plan.
    let row = RowPlace { raw: Exact::Null, tie: Vec::new(), at: Timestamp::UNIX_EPOCH };
    let reading = relation.after(&Place::Row(row), Read::Rows);
    let mut statement = connection.prepare(&format!("explain query plan {}", reading.later))?;
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(row.get::<_, String>(3)?);
    }
    let slow = |step: &String| step.starts_with("SCAN") || step == "USE TEMP B-TREE FOR ORDER BY";
    if !steps.iter().any(slow) {
        return Ok(Vec::new());
    }
    let plan = steps.join("; ");
    let what = format!("every look at {} reads all its rows ({plan})", settings.whence());
    Ok(vec![Blocker { what, remedy: relation.index(settings), ..Blocker::default() }])
}
