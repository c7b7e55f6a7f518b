//! `seriatim check`: connects to everything the config names, and says what is wrong and how to mend it.
//!
//! It makes and installs nothing.

use std::collections::BTreeSet;

use seriatim::lease::{Layout, LeaseView};
use seriatim::source::{Blocker, Installed};
use seriatim::store::EnsureError;

use crate::config::{CaptureKind, Config, FeedConfig};
use crate::databases::Database;
use crate::error::{Error, Result};
use crate::output::{self, BAD, GOOD, PLAIN, Table, WARN};
use crate::setup;
use crate::{databases, handlers};

/// What was found about one thing that the config names.
struct Finding {
    subject: String,
    verdict: Verdict,
}

enum Verdict {
    Good(String),
    Bad(Error),
    Skipped(String),
    Advice(Blocker),
    Risk(Blocker),
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
    let mut findings = vec![Finding::of("store".to_owned(), databases::check_store(&config.store).await)];
    findings.extend(risks(config).await);
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
        findings.extend(advice(feed, findings.last()).await);
    }
    for queue in config.queues.values() {
        let subject = format!("feed {}", queue.name);
        findings.push(match unusable.contains(queue.source.as_str()) {
            true => Finding { subject, verdict: Verdict::Skipped("its source cannot be used".to_owned()) },
            false => {
                let reached = handlers::reach(&queue.name, &queue.handler, config).await;
                Finding::of(subject, reached.map(|()| "queue; at-least-once".to_owned()))
            }
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

/// What can make the store lose what it was told.
async fn risks(config: &Config) -> Vec<Finding> {
    let Ok(Some(store)) = databases::existing_store(&config.store).await else { return Vec::new() };
    let finding = |risk| Finding { subject: "store".to_owned(), verdict: Verdict::Risk(risk) };
    store.backend().risks().await.into_iter().map(finding).collect()
}

/// What would make a good feed better.
async fn advice(feed: &FeedConfig, found: Option<&Finding>) -> Vec<Finding> {
    let good = found.is_some_and(|finding| matches!(finding.verdict, Verdict::Good(_)));
    let advice = if good { databases::capture(feed).advice().await.unwrap_or_default() } else { Vec::new() };
    let finding =
        |advice| Finding { subject: format!("feed {}", feed.name), verdict: Verdict::Advice(advice) };
    advice.into_iter().map(finding).collect()
}

async fn check_source(database: &Database) -> Result<String> {
    database.check_source().await?;
    Ok(format!("{database} is there"))
}

async fn check_feed(config: &Config, feed: &FeedConfig) -> Result<String> {
    let installed = match databases::capture(feed).check().await? {
        Installed::Installed if feed.capture == CaptureKind::Window => "needs nothing installed",
        Installed::Installed => "is installed",
        Installed::NotYet => "is not installed yet: `run` will do it",
    };
    handlers::check(feed, config).await?;
    handlers::reach(&feed.name, &feed.handler, config).await?;
    agrees_with_store(config, feed).await?;
    let guarantee = setup::guarantee(feed, config).as_str();
    Ok(format!("{} of {} {installed}; {guarantee}", feed.capture.as_str(), feed.table))
}

/// Whether the feed is still the one that the store has checkpoints of.
async fn agrees_with_store(config: &Config, feed: &FeedConfig) -> Result<()> {
    let store = databases::existing_store(&config.store).await?;
    setup::refuse_lost(feed, store.as_deref()).await?;
    let Some(store) = store else { return Ok(()) };
    let leases = store.view(std::slice::from_ref(&feed.name)).await?.leases;
    let leases: Vec<&LeaseView> = leases.iter().collect();
    let (existing, wanted) = (Layout::of(&leases).count(), feed.partitions);
    if existing == 0 {
        return Ok(());
    }
    if existing != wanted && !setup::can_be_divided(feed, &*store) {
        let feed = feed.name.clone();
        return Err(EnsureError::PartitionCount { feed, existing, wanted }.into());
    }
    setup::known_to_source(feed, &*store).await
}

fn write(findings: &[Finding]) -> Result<()> {
    let mut table = Table::default();
    for Finding { subject, verdict } in findings {
        let (style, word, text) = match verdict {
            Verdict::Good(text) => (GOOD, "ok", text.clone()),
            Verdict::Bad(error) => (BAD, "problem", error.sentence()),
            Verdict::Skipped(why) => (WARN, "skipped", why.clone()),
            Verdict::Advice(advice) => (WARN, "slow", advice.what.clone()),
            Verdict::Risk(risk) => (WARN, "risk", risk.what.clone()),
        };
        table.row([(style, word.to_owned()), (PLAIN, subject.clone()), (PLAIN, text)]);
        let remedy = match verdict {
            Verdict::Bad(error) => error.remedy(),
            Verdict::Advice(advice) | Verdict::Risk(advice) => Some(advice.remedy.as_str()),
            _ => None,
        };
        if let Some(remedy) = remedy {
            table.row([(PLAIN, String::new()), (PLAIN, String::new()), (PLAIN, format!("→ {remedy}"))]);
        }
    }
    table.write(&mut output::stdout())?;
    Ok(())
}
