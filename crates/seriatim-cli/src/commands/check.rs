//! `seriatim check`: connects to everything the config names, and says what is wrong and how to mend it.
//!
//! It makes and installs nothing.

use std::collections::BTreeSet;

use seriatim::FeedName;
use seriatim::lease::{Layout, LeaseView};
use seriatim::source::{Blocker, Installed};
use seriatim::store::EnsureError;

use super::strays;
use crate::config::{CaptureKind, Config, FeedConfig, HandlerConfig};
use crate::databases::{Database, OpenStore};
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
    Warning(Blocker),
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
        let checked = check_source(config, name, database).await;
        if checked.is_err() {
            unusable.insert(name.as_str());
        }
        findings.push(Finding::of(format!("source {name}"), checked));
    }
    for feed in config.feeds.values() {
        let subject = format!("feed {}", feed.name);
        match unusable.contains(feed.source.as_str()) {
            true => {
                findings.push(Finding {
                    subject: subject.clone(),
                    verdict: Verdict::Skipped(UNUSABLE.to_owned()),
                });
                findings.extend(bad(&subject, handlers::reach(&feed.name, &feed.handler, config).await));
            }
            false => findings.extend(check_feed(config, feed).await),
        }
        findings.extend(warnings(&subject, &feed.name, &feed.handler, config));
        let risk = |risk| Finding { subject: format!("feed {}", feed.name), verdict: Verdict::Risk(risk) };
        findings.extend(handlers::risks(feed, config).await.into_iter().map(risk));
    }
    for queue in config.queues.values() {
        let subject = format!("feed {}", queue.name);
        let reached = handlers::reach(&queue.name, &queue.handler, config).await;
        findings.push(match (unusable.contains(queue.source.as_str()), reached) {
            (_, Err(error)) => Finding { subject: subject.clone(), verdict: Verdict::Bad(error) },
            (true, Ok(())) => {
                Finding { subject: subject.clone(), verdict: Verdict::Skipped(UNUSABLE.to_owned()) }
            }
            (false, Ok(())) => Finding {
                subject: subject.clone(),
                verdict: Verdict::Good("queue; at-least-once".to_owned()),
            },
        });
        findings.extend(warnings(&subject, &queue.name, &queue.handler, config));
    }
    findings.extend(strays(config).await);
    findings
}

const UNUSABLE: &str = "its source cannot be used";

/// Feeds that the config does not name any more, and those that may be the same under another name.
async fn strays(config: &Config) -> Vec<Finding> {
    let Ok(Some(store)) = databases::existing_store(&config.store).await else { return Vec::new() };
    let (Ok(strays), Ok(known)) = (strays::find(config, &*store).await, store.feeds().await) else {
        return Vec::new();
    };
    let feeds: Vec<&FeedConfig> = config.feeds.values().collect();
    let finding = |name: &FeedName, what, remedy| {
        let blocker = Blocker { what, remedy, ..Blocker::default() };
        Finding { subject: format!("feed {name}"), verdict: Verdict::Warning(blocker) }
    };
    let unnamed = strays.iter().map(|stray| finding(&stray.name, stray.what(config), stray.remedy()));
    let renamed = strays::renamed(&feeds, &known, &strays).into_iter().map(|(feed, stray)| {
        let remedy = format!(
            "call it {} again, or set start = \"now\"; if it is another feed, all is well",
            stray.name
        );
        finding(&feed.name, strays::would_double(feed, stray), remedy)
    });
    unnamed.chain(renamed).collect()
}

/// What is odd about a handler, and may be meant so.
fn warnings(subject: &str, feed: &FeedName, handler: &HandlerConfig, config: &Config) -> Vec<Finding> {
    let warning = |warning| Finding { subject: subject.to_owned(), verdict: Verdict::Warning(warning) };
    handlers::warnings(feed, handler, config).into_iter().map(warning).collect()
}

fn bad(subject: &str, checked: Result<()>) -> Option<Finding> {
    let error = checked.err()?;
    Some(Finding { subject: subject.to_owned(), verdict: Verdict::Bad(error) })
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
async fn advice(feed: &FeedConfig) -> Vec<Finding> {
    let advice = databases::capture(feed).advice().await.unwrap_or_default();
    let finding =
        |advice| Finding { subject: format!("feed {}", feed.name), verdict: Verdict::Advice(advice) };
    advice.into_iter().map(finding).collect()
}

/// Of a source that has queues only, nothing has to be there yet: the first push makes it.
async fn check_source(config: &Config, name: &str, database: &Database) -> Result<String> {
    let has_tables = config.feeds.values().any(|feed| feed.source == name);
    match config.queues.values().find(|queue| queue.source == name) {
        Some(queue) if !has_tables => Ok(format!("{database} {}", queue.database.check_queues().await?)),
        _ => {
            database.check_source().await?;
            Ok(format!("{database} is there"))
        }
    }
}

/// All that is wrong with a feed, or that nothing is.
async fn check_feed(config: &Config, feed: &FeedConfig) -> Vec<Finding> {
    let subject = format!("feed {}", feed.name);
    let installed = databases::capture(feed).check().await;
    let mut findings = Vec::new();
    // The SQL of a table that is not there would only say so again.
    if installed.is_ok() {
        findings.extend(bad(&subject, handlers::check(feed, config).await));
    }
    findings.extend(bad(&subject, handlers::reach(&feed.name, &feed.handler, config).await));
    // A store that cannot be used has a finding of its own.
    if let Ok(store) = databases::existing_store(&config.store).await {
        findings.extend(bad(&subject, agrees_with_store(store, feed).await));
    }
    let installed = match installed {
        Err(error) => {
            findings.insert(0, Finding { subject, verdict: Verdict::Bad(error.into()) });
            return findings;
        }
        Ok(Installed::Installed) if feed.capture == CaptureKind::Window => "needs nothing installed",
        Ok(Installed::Installed) => "is installed",
        Ok(Installed::NotYet) => "is not installed yet: `run` will do it",
    };
    if findings.is_empty() {
        let guarantee = setup::guarantee(feed, config).await.as_str();
        let good = format!("{} of {} {installed}; {guarantee}", feed.capture.as_str(), feed.table);
        findings.push(Finding { subject, verdict: Verdict::Good(good) });
        findings.extend(advice(feed).await);
    }
    findings
}

/// Whether the feed is still the one that the store has checkpoints of.
async fn agrees_with_store(store: Option<OpenStore>, feed: &FeedConfig) -> Result<()> {
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
            Verdict::Warning(warning) => (WARN, "warning", warning.what.clone()),
        };
        table.row([(style, word.to_owned()), (PLAIN, subject.clone()), (PLAIN, text)]);
        let remedy = match verdict {
            Verdict::Bad(error) => error.remedy(),
            Verdict::Advice(advice) | Verdict::Risk(advice) | Verdict::Warning(advice) => {
                Some(advice.remedy.as_str())
            }
            _ => None,
        };
        if let Some(remedy) = remedy {
            table.row([(PLAIN, String::new()), (PLAIN, String::new()), (PLAIN, format!("→ {remedy}"))]);
        }
    }
    table.write(&mut output::stdout())?;
    Ok(())
}
