//! The settings of handlers: which one, and what each may have beside it.

use std::time::Duration;

use seriatim_handlers::{Format, Mode};

use super::parse::{count, duration};
use super::section::{Keys, Section, Setting};
use super::{HandlerConfig, HandlerKind};
use crate::error::Result;
use crate::handlers::SINKS;

/// The keys of the section: those of all handlers, and those of each sink.
pub(super) const HANDLER: Keys = Keys::of(&KEYS);

const COMMON: [&str; 7] = ["sql", "batch", "concurrency", "timeout", "delete", "format", "cloudevents_mode"];
const KEYS: [&str; number_of_keys()] = keys();

const fn number_of_keys() -> usize {
    let (mut number, mut sink) = (COMMON.len(), 0);
    while sink < SINKS.len() {
        number += 1 + SINKS[sink].settings.len() + SINKS[sink].sections.len();
        sink += 1;
    }
    number
}

const fn keys() -> [&'static str; number_of_keys()] {
    let (mut keys, mut next, mut sink) = ([""; number_of_keys()], 0, 0);
    while sink < SINKS.len() {
        next = copy(&[SINKS[sink].key], &mut keys, next);
        next = copy(SINKS[sink].settings, &mut keys, next);
        next = copy(SINKS[sink].sections, &mut keys, next);
        sink += 1;
    }
    copy(&COMMON, &mut keys, next);
    keys
}

/// Copies the keys to this place, and returns the place behind them.
const fn copy(from: &[&'static str], to: &mut [&'static str], at: usize) -> usize {
    let mut index = 0;
    while index < from.len() {
        to[at + index] = from[index];
        index += 1;
    }
    at + index
}

const DELETE: Keys = Keys::of(&["sql"]);

/// Changes of one call are in memory at once.
const MOST_BATCH: u32 = 100_000;
const MOST_CONCURRENCY: u32 = 10_000;

/// Reads the section of a handler.
pub(super) fn handler(section: &Section<'_>) -> Result<HandlerConfig> {
    let kind = kind(section)?;
    let (batch, concurrency) = match &kind {
        HandlerKind::Sql { .. } => (100, 8),
        HandlerKind::Sink(sink) => sink.batch_and_concurrency(),
    };
    let (format, mode) = form(section, &kind)?;
    Ok(HandlerConfig {
        kind,
        format,
        mode,
        batch: count(section, "batch", batch, MOST_BATCH)? as usize,
        concurrency: count(section, "concurrency", concurrency, MOST_CONCURRENCY)? as usize,
        timeout: duration(section, "timeout", Duration::from_secs(30))?,
    })
}

/// The form in which changes leave. SQL has their values as parameters, in no form.
fn form(section: &Section<'_>, kind: &HandlerKind) -> Result<(Format, Mode)> {
    let (format, mode) = (section.get("format")?, section.get("cloudevents_mode")?);
    if let (HandlerKind::Sql { .. }, Some(setting)) = (kind, format.as_ref().or(mode.as_ref())) {
        return Err(setting.wrong("is for sinks, and this handler has sql"));
    }
    let formats = [Format::Seriatim, Format::CloudEvents, Format::Debezium];
    let format = match format {
        Some(setting) => setting.one_of(&formats.map(|format| (format.as_str(), format)))?,
        None => Format::default(),
    };
    let Some(setting) = mode else { return Ok((format, Mode::default())) };
    if format != Format::CloudEvents {
        return Err(setting
            .wrong("means nothing without format = \"cloudevents\"")
            .help("add it, or remove this"));
    }
    let mode = setting.one_of(&[("structured", Mode::Structured), ("binary", Mode::Binary)])?;
    match kind {
        HandlerKind::Sink(sink) if mode == Mode::Binary && !sink.has_headers() => {
            let help = "remove it: the attributes are in the body then";
            Err(setting.wrong("is \"binary\", and this handler has no headers for the attributes").help(help))
        }
        _ => Ok((format, mode)),
    }
}

fn kind(section: &Section<'_>) -> Result<HandlerKind> {
    let (name, setting) = the_one(section)?;
    refuse_what_belongs_to_others(section, name)?;
    match SINKS.iter().find(|sink| sink.key == name) {
        Some(sink) => (sink.read)(section, &setting).map(HandlerKind::Sink),
        None => sql(section, &setting),
    }
}

/// The handler that is named: exactly one.
fn the_one<'a>(section: &Section<'a>) -> Result<(&'static str, Setting<'a>)> {
    let mut named = Vec::new();
    for name in ["sql"].into_iter().chain(SINKS.map(|sink| sink.key)) {
        match section.get(name)? {
            Some(setting) if name != "stdout" || setting.truth()? => named.push((name, setting)),
            _ => {}
        }
    }
    if let [(first, _), (_, second), ..] = named.as_slice() {
        return Err(
            second.wrong(format_args!("cannot be there beside {first}: a feed has exactly one handler"))
        );
    }
    named.pop().ok_or_else(|| {
        let examples: Vec<&str> =
            SINKS.iter().map(|sink| sink.example).filter(|example| !example.is_empty()).collect();
        let examples = examples.join(", ");
        section
            .wrong(format!("{} names no handler", section.path()))
            .help(format!(r#"give it exactly one of: sql = "…", {examples}"#))
    })
}

fn refuse_what_belongs_to_others(section: &Section<'_>, name: &str) -> Result<()> {
    let own = SINKS.iter().find(|sink| sink.key == name).map_or(&[] as &[_], |sink| sink.settings);
    for owner in SINKS.iter().filter(|owner| owner.key != name) {
        for key in owner.settings.iter().filter(|key| !own.contains(key)) {
            if let Some(setting) = section.get(key)? {
                let what = format!("is for handlers with {}, and this one has {name}", owner.key);
                return Err(setting.wrong(what));
            }
        }
        if let Some(key) = owner.sections.iter().find(|key| section.is_section(key)) {
            let (path, owner) = (section.path(), owner.key);
            let what = format!("{path}.{key} is for handlers with {owner}, and this one has {name}");
            return Err(section.wrong(what));
        }
    }
    if name != "sql"
        && let Some(setting) = section.section("delete", DELETE)?.get("sql")?
    {
        return Err(setting.wrong("needs sql for the other changes beside it"));
    }
    Ok(())
}

fn sql(section: &Section<'_>, setting: &Setting<'_>) -> Result<HandlerKind> {
    let delete = section.section("delete", DELETE)?;
    let given = delete.get("sql")?;
    if delete.is_in_file() && given.is_none() {
        return Err(section.wrong(format!("{} has no sql", delete.path())));
    }
    let delete = given.map(|setting| setting.word().map(str::to_owned)).transpose()?;
    Ok(HandlerKind::Sql { sql: setting.word()?.to_owned(), delete })
}
