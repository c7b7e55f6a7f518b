//! Lists the rows that were there before the triggers, at the places that were kept for them.

use rusqlite::{Transaction, params_from_iter};
use serde_json::{Value as Json, json};

use crate::capture::consumers::now;
use crate::capture::error::Fault;
use crate::capture::errors::Names;
use crate::capture::registry;
use crate::capture::sql::{all, list, quoted};
use crate::capture::table::Indexed;
use crate::capture::value::Exact;
use crate::capture::watched::Watched;

const PROGRESS: &str = include_str!("../../../queries/capture_seeded.sql");

/// What the books say when all are listed.
pub(in crate::capture) const DONE: &str = "done";

/// How many rows are listed in one transaction: writers wait that long.
const CHUNK: usize = 1000;

/// How far the rows are listed.
struct Progress {
    place: i64,
    key: Vec<Exact>,
}

impl Progress {
    fn parse(text: &str) -> Option<Self> {
        let (place, key): (i64, Vec<Json>) = serde_json::from_str(text).ok()?;
        Some(Progress { place, key: key.iter().map(Exact::from_json).collect::<Option<_>>()? })
    }

    fn to_text(&self) -> String {
        json!([self.place, self.key.iter().map(Exact::to_json).collect::<Vec<_>>()]).to_string()
    }
}

/// Lists one chunk more. Says whether all are listed that a consumer needs who begins there.
pub(in crate::capture) fn step(
    transaction: &Transaction<'_>,
    watched: &Watched,
    from: i64,
    names: &Names,
) -> Result<bool, Fault> {
    let Some(entry) = registry::entry(transaction, watched.objects.capture, names)? else {
        return Err(names.not_installed().into());
    };
    if from >= entry.seeds {
        return Ok(true);
    }
    let mut progress = match entry.seeded.as_deref() {
        Some(DONE) => return Ok(true),
        None => Progress { place: entry.floor, key: Vec::new() },
        Some(text) => {
            Progress::parse(text).ok_or_else(|| names.unreadable_registry("the progress of seeding"))?
        }
    };
    let keys = next_keys(transaction, watched, &progress.key)?;
    let done = keys.len() < CHUNK;
    let now = now(transaction)?;
    for key in keys {
        progress.place += insert_missing(transaction, watched, progress.place + 1, now, &key)? as i64;
        progress.key = key;
    }
    let text = if done { DONE.to_owned() } else { progress.to_text() };
    transaction.execute(PROGRESS, (watched.objects.capture, text))?;
    Ok(done)
}

/// The key's columns in the order of the unique index over them.
fn ordered_key(watched: &Watched) -> Vec<Indexed> {
    watched.table.unique_over(&watched.key).unwrap_or(&watched.table.primary).to_vec()
}

fn next_keys(
    transaction: &Transaction<'_>,
    watched: &Watched,
    after: &[Exact],
) -> rusqlite::Result<Vec<Vec<Exact>>> {
    let key = ordered_key(watched);
    let columns: Vec<String> = key.iter().map(|column| watched.table.column(column.slot)).collect();
    let ordered = list(
        key.iter().zip(&columns).map(|(one, name)| format!("{name} collate {}", quoted(&one.collation))),
    );
    let beyond = match after.is_empty() {
        true => String::new(),
        false => format!(" and ({ordered}) > ({})", list((1..=after.len()).map(|index| format!("?{index}")))),
    };
    let whole = all(columns.iter().map(|name| format!("{name} is not null")));
    let sql = format!(
        "select {} from {} where {whole}{beyond} order by {ordered} limit {CHUNK}",
        list(columns),
        watched.table.quoted()
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let read =
        |row: &rusqlite::Row<'_>| (0..key.len()).map(|index| row.get_ref(index).map(Exact::from)).collect();
    statement.query_map(params_from_iter(after), read)?.collect()
}

fn insert_missing(
    transaction: &Transaction<'_>,
    watched: &Watched,
    place: i64,
    now: i64,
    key: &[Exact],
) -> rusqlite::Result<usize> {
    let log = watched.objects.changes();
    let order = ordered_key(watched);
    // The log has the key's columns in the order of the settings.
    let index_in_log =
        |column: &Indexed| watched.key.iter().position(|slot| *slot == column.slot).unwrap_or(0);
    let columns = list(order.iter().map(|column| format!("k{}", index_in_log(column))));
    let values = list((0..order.len()).map(|index| format!("?{}", index + 3)));
    let same = all(order
        .iter()
        .enumerate()
        .map(|(index, column)| format!("l.k{} is ?{} collate binary", index_in_log(column), index + 3)));
    let sql = format!(
        "insert into {log} (seq, first, first_at, at, deleted, {columns}) select ?1, ?1, ?2, ?2, 0, {values} \
         where not exists (select 1 from {log} as l where {same})"
    );
    let (place, now) = (Exact::Integer(place), Exact::Integer(now));
    transaction.prepare_cached(&sql)?.execute(params_from_iter([&place, &now].into_iter().chain(key)))
}
