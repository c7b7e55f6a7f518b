//! `seriatim check`: connects to everything the config names, and says what is wrong and how to mend it.
//!
//! It makes and installs nothing.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::Path;

use seriatim::Store;
use seriatim::store::EnsureError;
use seriatim_sqlite::{Installed, SqliteStore};

use crate::config::{Config, Database, FeedConfig};
use crate::error::{Error, Result};
use crate::handlers;
use crate::output::{self, BAD, GOOD, PLAIN, Table, WARN};
use crate::setup::{self, Guarantee};

/// What was found about one thing that the config names.
struct Finding {
    subject: String,
    verdict: Verdict,
}

enum Verdict {
    Good(String),
    Bad(Error),
    Skipped(String),
}

/// Runs the command.
pub async fn execute(config: &Config) -> Result<()> {
    config.chosen(&[])?;
    let findings = findings(config).await;
    write(&findings)?;
    match findings.iter().filter(|finding| matches!(finding.verdict, Verdict::Bad(_))).count() {
        0 => Ok(()),
        1 => Err(Error::failed("there is 1 problem")),
        problems => Err(Error::failed(format!("there are {problems} problems"))),
    }
}

async fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![Finding::of("store".to_owned(), check_store(config).await)];
    let mut unusable = BTreeSet::new();
    for (name, database) in &config.sources {
        let checked = check_source(database).await;
        if checked.is_err() {
            unusable.insert(name.as_str());
        }
        findings.push(Finding::of(format!("source {name}"), checked));
    }
    for feed in config.feeds.values() {
        let subject = format!("feed {}", feed.name);
        findings.push(match unusable.contains(feed.source.as_str()) {
            true => Finding { subject, verdict: Verdict::Skipped("its source cannot be used".to_owned()) },
            false => Finding::of(subject, check_feed(config, feed).await),
        });
    }
    findings
}

impl Finding {
    fn of(subject: String, checked: Result<String>) -> Self {
        let verdict = checked.map_or_else(Verdict::Bad, Verdict::Good);
        Finding { subject, verdict }
    }
}

async fn check_store(config: &Config) -> Result<String> {
    let path = config.store.path();
    let state = match SqliteStore::open_existing(path).await.map_err(|error| setup::unusable(path, &error))? {
        Some(_) => "is there",
        None if path.exists() => "will be set up in the file by `run`",
        None => "will be made by `run`",
    };
    writable(path)?;
    Ok(format!("{} {state}", config.store))
}

async fn check_source(database: &Database) -> Result<String> {
    let path = database.path();
    if !path.exists() {
        let what =
            if folder_of(path).is_dir() { "there is no such file" } else { "its folder does not exist" };
        return Err(
            Error::failed(format!("opening {}: {what}", path.display())).help("check the url of the source")
        );
    }
    // Looking for a store reads the file: that shows whether it is a database, and a readable one.
    SqliteStore::open_existing(path).await.map_err(|error| setup::unusable(path, &error))?;
    writable(path)?;
    Ok(format!("{database} is there"))
}

async fn check_feed(config: &Config, feed: &FeedConfig) -> Result<String> {
    let installed = match setup::capture(feed).check().await? {
        Installed::Installed => "is installed",
        Installed::NotYet => "is not installed yet: `run` will do it",
    };
    handlers::check(feed).await?;
    agrees_with_store(config, feed).await?;
    let guarantee = Guarantee::of(feed, config).as_str();
    Ok(format!("{} of {} {installed}; {guarantee}", feed.capture.as_str(), feed.table))
}

/// Whether the feed is still the one that the store has checkpoints of.
async fn agrees_with_store(config: &Config, feed: &FeedConfig) -> Result<()> {
    let Some(store) = setup::existing_store(config).await? else { return Ok(()) };
    let leases = store.view(std::slice::from_ref(&feed.name)).await?.leases.len() as u32;
    if leases == 0 {
        return Ok(());
    }
    if leases != feed.partitions {
        let (feed, wanted) = (feed.name.clone(), feed.partitions);
        return Err(EnsureError::PartitionCount { feed, existing: leases, wanted }.into());
    }
    setup::known_to_source(feed, &store).await
}

/// Whether this user may write the file, and beside it: SQLite keeps its log there.
fn writable(path: &Path) -> Result<()> {
    let refused = |what: &Path, cause| {
        Error::failed(format!("{} cannot be written", what.display()))
            .caused_by(cause)
            .help("make the file and its folder writable for this user")
    };
    if path.exists() {
        OpenOptions::new().append(true).open(path).map_err(|cause| refused(path, cause))?;
    }
    let folder = folder_of(path);
    tempfile::tempfile_in(folder).map_err(|cause| refused(folder, cause))?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write(findings: &[Finding]) -> Result<()> {
    let mut table = Table::default();
    for Finding { subject, verdict } in findings {
        let (style, word, text) = match verdict {
            Verdict::Good(text) => (GOOD, "ok", text.clone()),
            Verdict::Bad(error) => (BAD, "problem", error.sentence()),
            Verdict::Skipped(why) => (WARN, "skipped", why.clone()),
        };
        table.row([(style, word.to_owned()), (PLAIN, subject.clone()), (PLAIN, text)]);
        if let Verdict::Bad(error) = verdict
            && let Some(remedy) = error.remedy()
        {
            table.row([(PLAIN, String::new()), (PLAIN, String::new()), (PLAIN, format!("→ {remedy}"))]);
        }
    }
    table.write(&mut output::stdout())?;
    Ok(())
}
