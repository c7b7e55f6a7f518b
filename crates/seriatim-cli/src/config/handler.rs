//! The settings of handlers: which one, and what each may have beside it.

use std::time::Duration;

use seriatim_handlers::webhook;

use super::parse::{count, duration};
use super::section::{Keys, Section, Setting};
use super::{HandlerConfig, HandlerKind, Secret, WebhookSecret};
use crate::error::Result;

pub(super) const HANDLER: Keys = Keys::of(&[
    "sql",
    "command",
    "webhook",
    "stdout",
    "batch",
    "concurrency",
    "timeout",
    "delete",
    "processes",
    "environment",
    "headers",
    "secret",
    "secret_env",
]);
const DELETE: Keys = Keys::of(&["sql"]);

/// Changes of one call are in memory at once.
const MOST_BATCH: u32 = 100_000;
const MOST_CONCURRENCY: u32 = 10_000;
const MOST_PROCESSES: u32 = 1_000;

/// Reads the section of a handler.
pub(super) fn handler(section: &Section<'_>) -> Result<HandlerConfig> {
    let kind = kind(section)?;
    // A command works on one change after another: what it has not begun is better held by whoever may have to hand it over.
    let (batch, concurrency) = match kind {
        HandlerKind::Command { processes, .. } => (32, processes as u32),
        _ => (100, 8),
    };
    Ok(HandlerConfig {
        kind,
        batch: count(section, "batch", batch, MOST_BATCH)? as usize,
        concurrency: count(section, "concurrency", concurrency, MOST_CONCURRENCY)? as usize,
        timeout: duration(section, "timeout", Duration::from_secs(30))?,
    })
}

fn kind(section: &Section<'_>) -> Result<HandlerKind> {
    let (name, setting) = the_one(section)?;
    refuse_what_belongs_to_others(section, name)?;
    match name {
        "sql" => sql(section, &setting),
        "command" => command(section, &setting),
        "webhook" => webhook(section, &setting),
        _ => Ok(HandlerKind::Stdout),
    }
}

/// The handler that is named: exactly one.
fn the_one<'a>(section: &Section<'a>) -> Result<(&'static str, Setting<'a>)> {
    let mut named = Vec::new();
    for name in ["sql", "command", "webhook", "stdout"] {
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
        section
            .wrong(format!("{} names no handler", section.path()))
            .help(r#"give it exactly one of: sql = "…", command = ["…"], webhook = "…", stdout = true"#)
    })
}

fn refuse_what_belongs_to_others(section: &Section<'_>, name: &str) -> Result<()> {
    let owners = [
        ("processes", "command"),
        ("environment", "command"),
        ("secret", "webhook"),
        ("secret_env", "webhook"),
    ];
    for (key, owner) in owners.into_iter().filter(|(_, owner)| *owner != name) {
        if let Some(setting) = section.get(key)? {
            return Err(setting.wrong(format_args!("is for handlers with {owner}, and this one has {name}")));
        }
    }
    if name != "webhook" && section.is_section("headers") {
        let what =
            format!("{}.headers is for handlers with webhook, and this one has {name}", section.path());
        return Err(section.wrong(what));
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

fn command(section: &Section<'_>, setting: &Setting<'_>) -> Result<HandlerKind> {
    let help = r#"write it as a list: command = ["python3", "handle.py"]"#;
    let command = setting.texts().map_err(|error| error.help(help))?;
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(setting.wrong("names no program").help(help));
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err(setting.wrong("has a zero byte in it"));
    }
    let processes = count(section, "processes", 1, MOST_PROCESSES)? as usize;
    let environment =
        section.get("environment")?.map(|setting| setting.texts()).transpose()?.unwrap_or_default();
    Ok(HandlerKind::Command { command, processes, environment })
}

fn webhook(section: &Section<'_>, setting: &Setting<'_>) -> Result<HandlerKind> {
    let url = setting.word()?.to_owned();
    webhook::check_url(&url).map_err(|bad| {
        setting.wrong(bad).help(r#"write the whole address: webhook = "https://example.org/changes""#)
    })?;
    let mut headers = Vec::new();
    for (name, value) in section.texts("headers")? {
        let text = value.text()?.to_owned();
        webhook::check_header(&name, &text).map_err(|bad| value.wrong(bad))?;
        headers.push((name, text));
    }
    Ok(HandlerKind::Webhook {
        url,
        headers: headers.into_iter().map(Secret::pair).collect(),
        secret: secret(section)?,
    })
}

fn secret(section: &Section<'_>) -> Result<Option<WebhookSecret>> {
    match (section.get("secret")?, section.get("secret_env")?) {
        (None, None) => Ok(None),
        (Some(secret), None) => Ok(Some(WebhookSecret::Here(Secret(secret.word()?.to_owned())))),
        (None, Some(variable)) => Ok(Some(WebhookSecret::Variable(variable.word()?.to_owned()))),
        (Some(_), Some(variable)) => {
            Err(variable.wrong("cannot be there beside secret").help("remove one of them"))
        }
    }
}
