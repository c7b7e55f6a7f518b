//! The settings of window feeds.

use std::num::NonZeroUsize;
use std::time::Duration;

use seriatim::backend::rows::{Horizon, Unit};
use seriatim::source::window::{Age, Overrides, Rules};

use super::environment::Environment;
use super::section::{Section, Setting};
use super::{CaptureKind, WindowConfig};
use crate::error::{Error, Result};

/// The keys that only window feeds have.
pub const KEYS: [&str; 7] =
    ["changed_at", "changed_at_unit", "buffer", "stale_age", "excessive_count", "horizon", "query"];

const BUFFER: Duration = Duration::from_secs(5);
const EXCESSIVE_COUNT: usize = 1000;
/// Rows of one window are in memory at once.
const MOST_EXCESSIVE_COUNT: u32 = 1_000_000;

/// Fails when a feed that is no window has settings of one.
pub fn refuse(section: &Section<'_>, capture: CaptureKind) -> Result<()> {
    for key in KEYS {
        if let Some(setting) = section.get(key)? {
            let what = format!("is for window feeds, and this is a {} feed", capture.as_str());
            return Err(setting.wrong(what).help("remove it"));
        }
    }
    Ok(())
}

/// The settings of the window feed of this name.
pub fn window(name: &str, section: &Section<'_>, environment: &Environment) -> Result<WindowConfig> {
    let units = [("s", Unit::Seconds), ("ms", Unit::Milliseconds), ("us", Unit::Microseconds)];
    let horizons = [("exact", Horizon::Exact), ("buffer", Horizon::Buffer)];
    let help = r#"name the column with the moment of the last change, such as: changed_at = "updated_at""#;
    let rules = Rules {
        buffer: section.get("buffer")?.map_or(Ok(BUFFER), |setting| setting.duration())?,
        stale_age: section.get("stale_age")?.map_or(Ok(Age::Infinite), |setting| age(&setting))?,
        excessive_count: section
            .get("excessive_count")?
            .map_or(Ok(EXCESSIVE_COUNT), |setting| {
                setting.count(MOST_EXCESSIVE_COUNT).map(|count| count as usize)
            })
            .map(|count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))?,
    };
    let overrides = Overrides::among(name, |variable| environment.plain(variable));
    let rules = overrides.map_err(|bad| Error::usage(bad.to_string()))?.over(rules);
    if let Some(wrong) = rules.wrong() {
        let what = format!("{}: {wrong}", section.path());
        return Err(section.wrong(what).help("raise stale_age or lower buffer"));
    }
    Ok(WindowConfig {
        changed_at: section.require("changed_at", help)?.word()?.to_owned(),
        unit: section.get("changed_at_unit")?.map(|setting| setting.one_of(&units)).transpose()?,
        rules,
        horizon: section.get("horizon")?.map_or(Ok(Horizon::Exact), |setting| setting.one_of(&horizons))?,
        query: query(section)?,
    })
}

/// The query, which stands instead of a table, and needs a key.
fn query(section: &Section<'_>) -> Result<Option<String>> {
    let Some(setting) = section.get("query")? else { return Ok(None) };
    let query = setting.word()?.to_owned();
    if section.get("table")?.is_some() {
        return Err(setting.wrong("cannot be there beside table: the rows come from one of them"));
    }
    match section.get("key")? {
        Some(_) => Ok(Some(query)),
        None => Err(setting
            .wrong("needs a key beside it")
            .help(r#"name the columns of the query that tell its rows apart, such as: key = ["id"]"#)),
    }
}

fn age(setting: &Setting<'_>) -> Result<Age> {
    match setting.text()? {
        "infinite" => Ok(Age::Infinite),
        _ => setting.duration().map(Age::Of).map_err(|error| error.help(r#"or "infinite""#)),
    }
}
