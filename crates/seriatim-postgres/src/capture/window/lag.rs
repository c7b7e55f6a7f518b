//! How far behind a window is, and what holds it back.

use deadpool_postgres::GenericClient;
use jiff::{SignedDuration, Timestamp};
use seriatim::backend::Packer;
use seriatim::order::partition_of_hash;
use seriatim::source::{Blocker, Cursor, Lag};
use seriatim::value::Key;
use tokio_postgres::Row;

use super::super::error::Fault;
use super::errors::shown;
use super::horizon::{self, Look, Open, Prepared};
use super::pass::Pass;
use super::place::{Place, WindowPosition};
use super::relation::{Lower, Read, Reading, Relation};
use super::settings::{Horizon, Settings};

/// Beyond this many rows, counting costs more than the number is worth.
const MOST_COUNTED: usize = 100_000;

/// A transaction that is open for so long is worth a word.
const LONG: SignedDuration = SignedDuration::from_secs(1);

/// So many transactions are named; the first of them is the one that counts.
const MOST_NAMED: usize = 3;

/// The lag of each cursor: the rows after it, the young ones too.
pub(super) async fn lag(pass: &Pass<'_>, cursors: &[Cursor]) -> Result<Vec<Lag>, Fault> {
    let now = horizon::present(pass.transaction).await?;
    let mut known: Vec<(Place, Counted)> = Vec::new();
    let mut lags = Vec::with_capacity(cursors.len());
    for cursor in cursors {
        let foreign = || pass.settings.names.not_a_position(&cursor.after);
        let mine = WindowPosition::parse(&cursor.after, pass.relation.spelling());
        let place = mine.ok_or_else(foreign)?.place;
        if !known.iter().any(|(counted, _)| *counted == place) {
            known.push((place.clone(), count(pass, &place).await?));
        }
        let counted = known.iter().find(|(counted, _)| *counted == place).map(|(_, counted)| counted);
        lags.push(counted.map_or(UNKNOWN, |counted| counted.lag(cursor.partition.0, now)));
    }
    Ok(lags)
}

const UNKNOWN: Lag = Lag { changes: None, seconds: None };

/// What comes after a place: for each partition, how many rows, and the moment of the first.
struct Counted {
    partitions: Vec<(u64, Option<Timestamp>)>,
    all: bool,
}

impl Counted {
    fn lag(&self, partition: u32, now: Timestamp) -> Lag {
        let Some((rows, first)) = self.partitions.get(partition as usize) else { return UNKNOWN };
        let age = |at: Timestamp| now.duration_since(at).as_secs_f64().max(0.0);
        let seconds = first.map(age).or(self.all.then_some(0.0));
        Lag { changes: self.all.then_some(*rows), seconds }
    }
}

async fn count(pass: &Pass<'_>, place: &Place) -> Result<Counted, Fault> {
    let mut partitions = vec![(0, None); pass.settings.partitions as usize];
    let Some(separator) = pass.separator(place).await? else { return Ok(Counted { partitions, all: true }) };
    let read = if pass.settings.partitions > 1 { Read::Keys } else { Read::Places };
    let rows = pass.query(&pass.relation.after(place, read, separator, None, MOST_COUNTED)).await?;
    for row in &rows {
        // A moment that is none will be told by the next read.
        let Ok(at) = pass.moment(row, read) else { continue };
        if at < place.at() {
            continue;
        }
        let partition = match read {
            Read::Keys => {
                let mut key = Packer::default();
                pass.relation.row.pack_key_of(row, pass.relation.layout(read).columns, &mut key);
                partition_of_hash(Key::hash_of(key.since(0)), pass.settings.partitions).0 as usize
            }
            _ => 0,
        };
        let (rows, first) = &mut partitions[partition];
        *rows += 1;
        *first = first.or(Some(at));
    }
    Ok(Counted { partitions, all: rows.len() < MOST_COUNTED })
}

/// Transactions that are open for long, those that are prepared, and rows that are ahead of their time.
pub(super) fn held_by(settings: &Settings, look: &Look) -> Vec<Blocker> {
    if settings.horizon == Horizon::Buffer || look.blind.is_some() {
        return Vec::new();
    }
    let feed = &settings.names.feed;
    let age = |at: Timestamp| look.now.duration_since(at);
    let mut open: Vec<&Open> = look.open.iter().filter(|open| age(open.start) >= LONG).collect();
    open.sort_by_key(|open| open.start);
    let of_open = |open: &&Open| {
        let application =
            if open.application.is_empty() { "an unnamed application" } else { &open.application };
        let statement =
            open.statement.map_or_else(String::new, |at| format!(", its last statement began at {at}"));
        Blocker {
            what: format!(
                "feed {feed} waits for a transaction of {application} (pid {}, user {}), open for {}, state {}{statement}",
                open.pid,
                open.user,
                shown(age(open.start)),
                open.state
            ),
            remedy: format!(
                "what it may write carries moments from {} on: end it, or `select pg_terminate_backend({})`",
                open.start, open.pid
            ),
            since: Some(open.start),
            ..Blocker::default()
        }
    };
    let of_prepared = |prepared: &&Prepared| Blocker {
        what: format!(
            "feed {feed} waits for the prepared transaction {} (user {}), prepared {} ago",
            prepared.gid,
            prepared.owner,
            shown(age(prepared.at))
        ),
        remedy: {
            let gid = super::super::names::literal(&prepared.gid);
            format!("`commit prepared {gid}` or `rollback prepared {gid}`")
        },
        since: Some(prepared.at),
        ..Blocker::default()
    };
    let prepared: Vec<&Prepared> = look.prepared.iter().filter(|prepared| age(prepared.at) >= LONG).collect();
    let open = open.iter().take(MOST_NAMED).map(of_open);
    open.chain(prepared.iter().take(MOST_NAMED).map(of_prepared)).collect()
}

/// The latest moment of all rows, when it is further ahead than the buffer could explain.
pub(super) async fn ahead_of_time(pass: &Pass<'_>, now: Timestamp) -> Result<Option<Blocker>, Fault> {
    let settings = pass.settings;
    let tolerated = SignedDuration::try_from(settings.rules.buffer).unwrap_or(SignedDuration::MAX);
    let Ok(later) = now.checked_add(tolerated) else { return Ok(None) };
    let Some(separator) = pass.separator(&Place::Beginning).await? else { return Ok(None) };
    let least = pass.relation.kind.least(later, separator);
    let reading = Reading { sql: pass.relation.latest(1), parameters: vec![least] };
    let latest =
        pass.query(&reading).await?.first().and_then(|row: &Row| pass.moment(row, Read::Places).ok());
    Ok(latest.filter(|at| *at > later).map(|at| Blocker {
        what: format!(
            "feed {}: {} has rows that change only in the future, up to {at}; now is {now}",
            settings.names.feed,
            settings.whence()
        ),
        remedy: "they are delivered when that moment has come; correct them, or the clock that wrote them"
            .to_owned(),
        ..Blocker::default()
    }))
}

/// Looks for the index without which every look reads all rows.
pub(super) async fn missing_index(
    client: &impl GenericClient,
    settings: &Settings,
    relation: &Relation,
) -> Result<Option<Blocker>, Fault> {
    // How many rows there are today does not matter: what is chosen is what an index allows.
    client.batch_execute(include_str!("../../../queries/window_plan.sql")).await?;
    let reading = relation.reading(
        Read::Places,
        Lower::From(&relation.kind.least(Timestamp::UNIX_EPOCH, b' ')),
        None,
        1000,
    );
    let lines = client.query(&format!("explain {}", reading.literal()), &[]).await?;
    let steps: Vec<String> = lines.iter().filter_map(|line| step(line.get(0))).collect();
    if !steps.iter().any(|step| step.contains("Seq Scan") || step == "Sort") {
        return Ok(None);
    }
    let what = format!("every look at {} reads all its rows ({})", settings.whence(), steps.join(", "));
    Ok(Some(Blocker { what, remedy: relation.index(settings), ..Blocker::default() }))
}

/// The step that a line of a plan tells of, without its costs.
fn step(line: &str) -> Option<String> {
    let (step, _) = line.split_once("  (cost=")?;
    Some(step.trim().trim_start_matches("->").trim().to_owned())
}
