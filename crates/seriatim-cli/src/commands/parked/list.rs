//! `seriatim parked list`: what is parked; for people, by what went wrong.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use seriatim::store::{ParkedObject, ParkedState};
use seriatim::{FeedName, Partition};

use super::{is_for_people, queued};
use crate::args::ParkedList;
use crate::config::Config;
use crate::databases::{self, OpenStore};
use crate::error::Result;
use crate::output::{self, BAD, FAINT, PLAIN, TITLE, Table, WARN, counted, styled};

/// At most so many objects are named of those that failed in one way.
const SHOWN: usize = 20;

/// One object, as `--json` shows it.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    feed: &'a FeedName,
    partition: Partition,
    key: serde_json::Value,
    waiting: u64,
    attempts: u32,
    error: &'a str,
    since: Timestamp,
    state: ParkedState,
    next_try: Option<Timestamp>,
}

impl<'a> From<&'a ParkedObject> for Line<'a> {
    fn from(object: &'a ParkedObject) -> Self {
        Line {
            feed: &object.feed,
            partition: object.partition,
            key: object.key.to_json(),
            waiting: object.waiting,
            attempts: object.failure.attempts,
            error: &object.failure.error,
            since: object.since,
            state: object.failure.state,
            next_try: object.failure.next_try,
        }
    }
}

/// Runs the command.
pub async fn execute(config: &Config, arguments: &ParkedList) -> Result<()> {
    let only = arguments.feed.as_deref().map(|feed| config.feed(feed)).transpose()?;
    let store = databases::existing_store(&config.store).await?;
    let mut parked = collect(config, store.as_ref(), only.map(|feed| feed.name.as_str())).await?;
    let all = parked.len();
    parked.retain(|object| arguments.all || is_for_people(object));
    let others = all - parked.len();
    tell(&parked, others, arguments)
}

/// What is parked, of one feed or queue or of all.
pub(super) async fn collect(
    config: &Config,
    store: Option<&OpenStore>,
    only: Option<&str>,
) -> Result<Vec<ParkedObject>> {
    let mut parked = Vec::new();
    if let Some(store) = store {
        for feed in store.feeds().await?.iter().filter(|feed| only.is_none_or(|only| feed.as_str() == only)) {
            parked.extend(store.parked(feed, None).await?);
        }
    }
    for queue in config.queues.values().filter(|queue| only.is_none_or(|only| queue.name.as_str() == only)) {
        if let Some(opened) = databases::existing_queue(queue).await? {
            parked.extend(queued::parked(&*opened, &queue.name).await?);
        }
    }
    Ok(parked)
}

/// The same for the page, without objects that only stepped aside for a moment.
pub async fn lines(
    config: &Config,
    store: Option<&OpenStore>,
    only: Option<&str>,
) -> Result<Vec<serde_json::Value>> {
    let mut parked = collect(config, store, only).await?;
    parked.retain(is_for_people);
    let shown =
        |object| serde_json::to_value(Line::from(object)).expect("names, numbers and texts always serialize");
    Ok(parked.iter().map(shown).collect())
}

/// Shows what is parked.
pub(super) fn tell(parked: &[ParkedObject], others: usize, arguments: &ParkedList) -> Result<()> {
    if arguments.json {
        let lines: Vec<Line<'_>> = parked.iter().map(Line::from).collect();
        output::line(serde_json::to_string(&lines).expect("names, numbers and texts always serialize"))?;
        return Ok(());
    }
    let mut out = output::stdout();
    write(parked, others, &mut out)?;
    out.flush()?;
    Ok(())
}

fn write(parked: &[ParkedObject], others: usize, out: &mut impl Write) -> io::Result<()> {
    if parked.is_empty() {
        writeln!(out, "nothing is parked")?;
    }
    let mut groups: BTreeMap<(&FeedName, &str), Vec<&ParkedObject>> = BTreeMap::new();
    for object in parked {
        groups.entry((&object.feed, &object.failure.error)).or_default().push(object);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // What concerns most objects comes first.
    groups.sort_by_key(|((feed, _), objects)| (*feed, std::cmp::Reverse(objects.len())));
    let mut told = None;
    for ((feed, error), objects) in groups {
        if told.replace(feed) != Some(feed) {
            writeln!(out, "{}", styled(TITLE, format_args!("feed {feed}")))?;
        }
        write_group(error, &objects, out)?;
    }
    match others {
        0 => Ok(()),
        others => writeln!(out, "{others} more are being tried again by themselves (--all shows them)"),
    }
}

fn write_group(error: &str, objects: &[&ParkedObject], out: &mut impl Write) -> io::Result<()> {
    let changes: u64 = objects.iter().map(|object| object.waiting).sum();
    let count = format!("{}, {}", counted(objects.len() as u64, "object"), counted(changes, "change"));
    writeln!(out, "{}  {}", styled(BAD, error), styled(FAINT, count))?;
    let mut table = Table::titled(["key", "partition", "state", "waiting", "attempts", "since", "next try"]);
    for object in objects.iter().take(SHOWN) {
        let state = match object.failure.state {
            ParkedState::Parked => (PLAIN, "parked".to_owned()),
            ParkedState::Retrying => (WARN, "to be tried again".to_owned()),
        };
        table.row([
            (PLAIN, object.key.to_string()),
            (FAINT, object.partition.to_string()),
            state,
            (PLAIN, object.waiting.to_string()),
            (PLAIN, object.failure.attempts.to_string()),
            (FAINT, format!("{:.0}", object.since)),
            (FAINT, object.failure.next_try.map_or_else(|| "-".to_owned(), |next| format!("{next:.0}"))),
        ]);
    }
    table.write(out)?;
    match objects.len().saturating_sub(SHOWN) {
        0 => writeln!(out),
        more => writeln!(out, "and {more} more\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seriatim::store::ParkedFailure;
    use seriatim::value::{Key, Value};

    fn object(id: i64, error: &str, state: ParkedState) -> ParkedObject {
        ParkedObject {
            feed: FeedName::new("totals").unwrap(),
            partition: Partition(3),
            key: Key::of("id", Value::Integer(id)),
            waiting: 2,
            bytes: 100,
            failure: ParkedFailure {
                error: error.to_owned(),
                attempts: 5,
                state,
                next_try: "2026-11-15T08:01:00.5Z".parse().ok(),
            },
            since: "2026-11-15T08:00:00.5Z".parse().unwrap(),
        }
    }

    #[test]
    fn the_json_is_that_of_the_contract() {
        let json = serde_json::to_string(&Line::from(&object(7, "no", ParkedState::Parked))).unwrap();
        let expected = concat!(
            r#"{"feed":"totals","partition":3,"key":{"id":7},"waiting":2,"attempts":5,"error":"no","#,
            r#""since":"2026-11-15T08:00:00.5Z","state":"parked","next_try":"2026-11-15T08:01:00.5Z"}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn people_see_what_went_wrong_and_for_whom() {
        let parked = [
            object(1, "rare", ParkedState::Parked),
            object(2, "common", ParkedState::Parked),
            object(3, "common", ParkedState::Retrying),
        ];
        let mut plain = anstream::StripStream::new(Vec::new());
        write(&parked, 4, &mut plain).unwrap();
        let text = String::from_utf8(plain.into_inner()).unwrap();
        let expected = "\
feed totals
common  2 objects, 4 changes
key       partition  state              waiting  attempts  since                 next try
{\"id\":2}  3          parked             2        5         2026-11-15T08:00:00Z  2026-11-15T08:01:00Z
{\"id\":3}  3          to be tried again  2        5         2026-11-15T08:00:00Z  2026-11-15T08:01:00Z

rare  1 object, 2 changes
key       partition  state   waiting  attempts  since                 next try
{\"id\":1}  3          parked  2        5         2026-11-15T08:00:00Z  2026-11-15T08:01:00Z

4 more are being tried again by themselves (--all shows them)
";
        assert_eq!(text, expected);
    }
}
