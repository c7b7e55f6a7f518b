//! `seriatim parked show`: one parked object with the changes that wait, and what was discarded of it.

use std::io::Write;

use serde::Serialize;
use seriatim::store::Discarded;

use super::{is_meant, known, list, not_among, parse_key};
use crate::args::ParkedShow;
use crate::config::Config;
use crate::error::Result;
use crate::output::{self, BAD, FAINT, TITLE, counted, styled};

/// A discard, as `--json` shows it.
#[derive(Serialize)]
struct Dropped<'a> {
    first: u64,
    last: u64,
    changes: u64,
    error: &'a str,
    reason: &'a str,
    at: jiff::Timestamp,
}

/// All of it, as `--json` shows it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    object: Option<list::Line<'a>>,
    changes: Vec<Box<serde_json::value::RawValue>>,
    discarded: Vec<Dropped<'a>>,
}

/// Runs the command.
pub async fn execute(config: &Config, arguments: &ParkedShow) -> Result<()> {
    let (store, feed) = known(config, &arguments.feed).await?;
    let wanted = parse_key(&arguments.key)?;
    let parked = store.parked(&feed.name, None).await?;
    let object = parked.iter().find(|object| is_meant(&object.key, &wanted));
    let mut discarded = store.discarded(&feed.name, usize::MAX).await?;
    discarded.retain(|discarded| is_meant(&discarded.key, &wanted));
    if object.is_none() && discarded.is_empty() {
        return Err(not_among(&feed.name, &wanted, parked.first().map(|object| &object.key)));
    }
    let changes = match object {
        Some(object) => store.parked_changes(&feed.name, &object.key, arguments.limit).await?,
        None => Vec::new(),
    };
    let changes: Vec<String> = changes.iter().map(seriatim::Change::to_json).collect();
    if arguments.json {
        let raw = |json| serde_json::value::RawValue::from_string(json).expect("a change is JSON");
        let object = object.map(list::Line::from);
        let changes = changes.into_iter().map(raw).collect();
        let shown = Shown { object, changes, discarded: discarded.iter().map(dropped).collect() };
        output::line(serde_json::to_string(&shown).expect("names, numbers and texts always serialize"))?;
        return Ok(());
    }
    let mut out = output::stdout();
    if let Some(object) = object {
        let failure = &object.failure;
        writeln!(out, "{}  partition {}", styled(TITLE, &object.key), object.partition)?;
        writeln!(out, "{}", styled(BAD, &failure.error))?;
        let (attempts, since, waiting) = (failure.attempts, object.since, object.waiting);
        let (attempts, waiting) = (counted(attempts.into(), "attempt"), counted(waiting, "change"));
        let next = failure.next_try.map_or_else(String::new, |next| format!("; next try at {next:.0}"));
        writeln!(out, "{attempts}; parked since {since:.0}{next}; {waiting} kept:")?;
        changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        if object.waiting > changes.len() as u64 {
            writeln!(out, "{}", styled(FAINT, "and more; --limit says how many are shown"))?;
        }
    }
    for Discarded { first, last, changes, reason, at, .. } in &discarded {
        writeln!(out, "discarded at {at:.0}: {changes} changes ({first} to {last}): {reason}")?;
    }
    out.flush()?;
    Ok(())
}

fn dropped(discarded: &Discarded) -> Dropped<'_> {
    Dropped {
        first: discarded.first,
        last: discarded.last,
        changes: discarded.changes,
        error: &discarded.error,
        reason: &discarded.reason,
        at: discarded.at,
    }
}
