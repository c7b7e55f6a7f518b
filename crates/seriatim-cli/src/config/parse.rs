//! From sections to settings: which keys there are, what each may be, and what it is when nobody says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use seriatim::FeedName;
use seriatim::backend::{Dialect, Filter};
use seriatim::handler::{Retry, Then};
use seriatim::host::LeaseSettings;
use seriatim::source::Start;

use super::checkpoint::checkpoint;
use super::connections::{connections, share};
use super::duration::backoff;
use super::environment::Environment;
use super::handler::{HANDLER, handler};
use super::once::once;
use super::parked::{PARKED, heal, parked};
use super::section::{Document, Keys, Section, Setting};
use super::suggest::instead_of;
use super::url::{database, quoted};
use super::{
    CaptureKind, Config, FeedConfig, HandlerKind, QueueConfig, WalConfig, WindowConfig, problems, window,
};
use crate::databases::{Database, SourceBackend};
use crate::error::{Error, Result};

pub(super) const ROOT: Keys = Keys::of(&["store", "source", "feed", "lease"]);
pub(super) const SOURCE: Keys = Keys::of(&["url", "connections", "slot", "publication", "journal"]);
pub(super) const FEED: Keys = Keys {
    here: &[
        "source",
        "capture",
        "table",
        "key",
        "where",
        "columns",
        "partitions",
        "start",
        "deletes",
        "chain",
        "every",
        "limit",
        "prefix",
        "handler",
        "retry",
        "parked",
        "once",
        "once_expires_after",
        "once_on_timeout",
        "changed_at",
        "changed_at_unit",
        "buffer",
        "stale_age",
        "excessive_count",
        "horizon",
        "query",
        "checkpoint",
    ],
    later: &[],
    below: &[("handler", HANDLER.here), ("retry", RETRY.here), ("parked", PARKED.here)],
};
pub(super) const RETRY: Keys = Keys::of(&["attempts", "backoff", "then"]);
pub(super) const LEASE: Keys = Keys::of(&["acquire", "renew", "expire", "max", "close"]);

const LATER_CAPTURES: [&str; 1] = ["stream"];

/// Each partition is a lease that some host renews: more of them than this only cost.
pub(super) const MOST_PARTITIONS: u32 = 10_000;

pub(super) type Sources = BTreeMap<String, Database>;

/// Reads a whole config file, or says everything that is wrong with it.
pub fn config(file: &Path, text: &str, environment: &Environment) -> Result<Config> {
    let document = Document { file, text, environment };
    read(file, &document, environment).map_err(|first| {
        let others = problems::others(&first, &document, environment);
        first.and(others)
    })
}

fn read(file: &Path, document: &Document<'_>, environment: &Environment) -> Result<Config> {
    let table = document.parse()?;
    if table.is_empty() {
        return Err(Error::usage(format!("{} is empty", file.display()))
            .help("`seriatim init --force` writes an example into it"));
    }
    let root = Section::root(document, &table, ROOT)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let store = root.require("store", r#"add a line such as: store = "sqlite:seriatim.db""#)?;
    let mut store = url(&store, folder)?;
    let mut sources = sources(&root, folder)?;
    share(&mut store, &mut sources);
    let feeds = feeds(&root, &sources, environment)?;
    let queues = queues(&root, &sources)?;
    let leases = root.section("lease", LEASE)?;
    let lease = lease(&leases)?;
    let most_leases = leases.get("max")?.map(|setting| setting.count(u32::MAX)).transpose()?;
    Ok(Config {
        file: file.to_owned(),
        store,
        sources,
        feeds,
        queues,
        lease,
        most_leases,
        close_within: duration(&leases, "close", Duration::from_secs(30))?,
        warnings: environment.unknown(),
    })
}

fn sources(root: &Section<'_>, folder: &Path) -> Result<Sources> {
    let sections = root.named("source", SOURCE)?;
    let sources = sections.into_iter().map(|(name, section)| {
        let setting = section.require("url", r#"add a line such as: url = "sqlite:shop.db""#)?;
        Ok((name, connections(&section, url(&setting, folder)?)?))
    });
    sources.collect()
}

pub(super) fn url(setting: &Setting<'_>, folder: &Path) -> Result<Database> {
    database(setting.word()?, folder).map_err(|what| setting.wrong(what))
}

fn feeds(
    root: &Section<'_>,
    sources: &Sources,
    environment: &Environment,
) -> Result<BTreeMap<FeedName, FeedConfig>> {
    let mut feeds = BTreeMap::new();
    for (name, section) in &root.named("feed", FEED)? {
        if !is_queue(section)? {
            let feed = feed(name, section, root, sources, environment)?;
            feeds.insert(feed.name.clone(), feed);
        }
    }
    Ok(feeds)
}

fn queues(root: &Section<'_>, sources: &Sources) -> Result<BTreeMap<FeedName, QueueConfig>> {
    let mut queues = BTreeMap::new();
    for (name, section) in &root.named("feed", FEED)? {
        if is_queue(section)? {
            let queue = queue(name, section, sources)?;
            refuse_shared_prefix(&queue, section, &queues)?;
            queues.insert(queue.name.clone(), queue);
        }
    }
    Ok(queues)
}

/// Two queues with the same keys would take each other's events.
fn refuse_shared_prefix(
    queue: &QueueConfig,
    section: &Section<'_>,
    others: &BTreeMap<FeedName, QueueConfig>,
) -> Result<()> {
    let keys = |queue: &QueueConfig| queue.prefix.clone().unwrap_or_else(|| format!("{{{}}}:", queue.name));
    let other = others.values().find(|other| other.source == queue.source && keys(other) == keys(queue));
    other.filter(|_| queue.database.name() == "Redis").map_or(Ok(()), |other| {
        let what = format!("{} has the same keys in Redis as feed.{}", section.path(), other.name);
        Err(section.wrong(what).help("give each queue a prefix of its own"))
    })
}

pub(super) fn is_queue(section: &Section<'_>) -> Result<bool> {
    Ok(section.get("capture")?.is_some_and(|setting| setting.text().is_ok_and(|text| text == "queue")))
}

/// What is about tables means nothing for a queue.
const NOT_OF_QUEUES: [&str; 9] =
    ["table", "key", "where", "columns", "partitions", "start", "deletes", "chain", "checkpoint"];

pub(super) fn queue(name: &str, section: &Section<'_>, sources: &Sources) -> Result<QueueConfig> {
    let name = FeedName::new(name).map_err(|bad| section.wrong(bad.to_string()))?;
    for key in NOT_OF_QUEUES.into_iter().chain(window::KEYS) {
        if let Some(setting) = section.get(key)? {
            return Err(setting.wrong("means nothing for a queue").help("remove it"));
        }
    }
    if section.is_section("parked") {
        let what = format!("{}.parked means nothing for a queue", section.path());
        return Err(section
            .wrong(what)
            .help("remove it; `limit` bounds how many events of one object may wait"));
    }
    let (source, database) = source(section, sources)?;
    let kind = database.name();
    let Some(database) = database.queues() else {
        let what = format!("{}.capture is \"queue\", and {kind} has none", section.path());
        return Err(section.wrong(what).help("use a source that is sqlite, postgres or redis"));
    };
    let prefix = section.get("prefix")?;
    if let Some(setting) = prefix.as_ref().filter(|_| kind != "Redis") {
        return Err(setting.wrong("is for queues in Redis").help("remove it"));
    }
    let handler = handler(&section.section("handler", HANDLER)?)?;
    if matches!(handler.kind, HandlerKind::Sql { .. }) {
        let what =
            format!("{}.handler.sql cannot handle events of a queue: they have no columns", section.path());
        return Err(section.wrong(what).help("use another handler: command, webhook or stdout = true"));
    }
    Ok(QueueConfig {
        name,
        source,
        database,
        every: duration(section, "every", Duration::from_secs(1))?,
        limit: section.get("limit")?.map(|setting| setting.count(u32::MAX)).transpose()?.map(u64::from),
        prefix: prefix.map(|setting| setting.text().map(str::to_owned)).transpose()?,
        once: once(section, &handler.kind)?,
        handler,
        retry: retry(&section.section("retry", RETRY)?)?,
    })
}

pub(super) fn feed(
    name: &str,
    section: &Section<'_>,
    root: &Section<'_>,
    sources: &Sources,
    environment: &Environment,
) -> Result<FeedConfig> {
    let name = FeedName::new(name).map_err(|bad| section.wrong(bad.to_string()))?;
    let (source, database) = source(section, sources)?;
    let capture = capture(section)?;
    for key in ["limit", "prefix"] {
        if let Some(setting) = section.get(key)? {
            return Err(setting.wrong("is for queues").help("remove it"));
        }
    }
    let kind = database.name();
    let Some(database) = database.source() else {
        let what =
            format!("{} watches a table, and {kind} has none that this version can watch", section.path());
        return Err(section.wrong(what).help(r#"use capture = "queue", or a source that has tables"#));
    };
    let window = match capture {
        CaptureKind::Window => Some(window::window(name.as_str(), section, environment)?),
        _ => window::refuse(section, capture).map(|()| None)?,
    };
    let wal = match capture {
        CaptureKind::Wal => Some(wal(section, root, &source, &*database)?),
        _ => None,
    };
    let handler = handler(&section.section("handler", HANDLER)?)?;
    let chain = chain(section, capture, &*database)?;
    // A window is read by one host after another, unless somebody wants it shared.
    let partitions = if window.is_some() { 1 } else { 16 };
    Ok(FeedConfig {
        name,
        source,
        capture,
        table: table(section, window.as_ref())?,
        window,
        wal,
        key: columns(section, "key", "leave it out to use the table's primary key")?,
        filter: filter(section, database.dialect())?,
        columns: columns(section, "columns", "leave it out to have all of them")?,
        partitions: count(section, "partitions", partitions, MOST_PARTITIONS)?,
        start: section.get("start")?.map_or(Ok(Start::Beginning), |setting| start(&setting))?,
        deletes: deletes(section, capture)?,
        chain,
        every: duration(section, "every", Duration::from_millis(50))?,
        checkpoint: checkpoint(section)?,
        once: once(section, &handler.kind)?,
        handler,
        retry: retry(&section.section("retry", RETRY)?)?,
        parked: parked(&section.section("parked", PARKED)?)?,
        heal: heal(&section.section("parked", PARKED)?)?,
        database,
    })
}

/// Whether changes name the one before them, where that can be kept.
fn chain(section: &Section<'_>, capture: CaptureKind, database: &dyn SourceBackend) -> Result<bool> {
    let Some(setting) = section.get("chain")? else { return Ok(false) };
    let wanted = setting.truth()?;
    let by_other_key = section.get("key")?.and_then(|_| database.no_chain_by_key());
    match capture {
        _ if !wanted => Ok(false),
        CaptureKind::Window => {
            Err(setting.wrong("is for journal and log feeds: a window has no ids that rise").help("remove it"))
        }
        CaptureKind::Journal | CaptureKind::Wal if let Some(why) = by_other_key => Err(setting
            .wrong(why)
            .help("leave `key` out, so that the primary key is the key, or use capture = \"log\"")),
        // What is handed out again after a crash, by another filter than before, would have another chain than consumers know.
        _ if section.get("where")?.is_some() => Err(setting
            .wrong("cannot go with `where`: with another filter, changes would name others before them than consumers know")
            .help("remove one of the two; a handler may leave out rows that it has no use for")),
        CaptureKind::Journal | CaptureKind::Log | CaptureKind::Wal => Ok(true),
    }
}

pub(super) fn source(section: &Section<'_>, sources: &Sources) -> Result<(String, Database)> {
    let names: Vec<&str> = sources.keys().map(String::as_str).collect();
    let help = match names.as_slice() {
        [] => "there are no sources yet: add a section [source.NAME] with a url, and name it here".to_owned(),
        names => format!("name one of the sources: {}", names.join(", ")),
    };
    let setting = section.require("source", &help)?;
    let name = setting.word()?;
    match sources.get(name) {
        Some(database) => Ok((name.to_owned(), database.clone())),
        None if names.is_empty() => {
            Err(setting.wrong(format_args!("names no source: {}", quoted(name))).help(help))
        }
        None => Err(setting
            .wrong(format_args!("names no source: {}", quoted(name)))
            .help(instead_of(name, &names))),
    }
}

/// What is read of the server's own log, where the source has one.
fn wal(
    section: &Section<'_>,
    root: &Section<'_>,
    source: &str,
    database: &dyn SourceBackend,
) -> Result<WalConfig> {
    if !database.has_log() {
        let what = format!(
            "{}.capture is \"wal\", and {} has no log that can be read",
            section.path(),
            database.name()
        );
        return Err(section.wrong(what).help(r#"use capture = "journal", or a source that is postgres"#));
    }
    let sections = root.named("source", SOURCE)?;
    let Some((_, of)) = sections.iter().find(|(name, _)| name == source) else {
        return Ok(WalConfig::default());
    };
    if let Some(setting) = of.get("journal")?
        && setting.one_of(&[("source", false), ("store", true)])?
    {
        return Err(setting
            .wrong("is \"store\", which is not in this version yet: the relay writes its journal into the source's database")
            .help(r#"use journal = "source", or leave it out"#));
    }
    let name = |key: &str| -> Result<Option<String>> {
        let Some(setting) = of.get(key)? else { return Ok(None) };
        let name = setting.word()?;
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        match !name.is_empty() && name.len() <= 63 && name.chars().all(plain) {
            true => Ok(Some(name.to_owned())),
            false => Err(setting
                .wrong(format_args!("cannot be {}", quoted(name)))
                .help("use at most 63 small letters, digits and underscores")),
        }
    };
    Ok(WalConfig { slot: name("slot")?, publication: name("publication")? })
}

pub(super) fn capture(section: &Section<'_>) -> Result<CaptureKind> {
    let setting = section.require("capture", r#"add a line such as: capture = "journal""#)?;
    if let Some(later) = LATER_CAPTURES.iter().find(|later| setting.text().is_ok_and(|text| text == **later))
    {
        let what = format!("is {later:?}, which is not in this version yet");
        return Err(setting.wrong(what).help("this version has: journal, log, wal, window, queue"));
    }
    setting.one_of(&[
        ("journal", CaptureKind::Journal),
        ("log", CaptureKind::Log),
        ("wal", CaptureKind::Wal),
        ("window", CaptureKind::Window),
    ])
}

/// The table's name; where a query stands in its place, the words for that.
fn table(section: &Section<'_>, window: Option<&WindowConfig>) -> Result<String> {
    match window {
        Some(WindowConfig { query: Some(_), .. }) => Ok("its query".to_owned()),
        _ => Ok(section.require("table", r#"add a line such as: table = "orders""#)?.word()?.to_owned()),
    }
}

/// The columns that a setting names, if it is there.
pub(super) fn columns(section: &Section<'_>, key: &str, otherwise: &str) -> Result<Option<Vec<String>>> {
    let Some(setting) = section.get(key)? else {
        return Ok(None);
    };
    let columns = setting.texts()?;
    if columns.is_empty() || columns.iter().any(|column| column.trim().is_empty()) {
        return Err(setting.wrong("must name columns").help(otherwise));
    }
    let twice = columns.iter().enumerate().find(|(index, column)| columns[..*index].contains(column));
    match twice {
        Some((_, column)) => Err(setting.wrong(format_args!("names the column {column:?} twice"))),
        None => Ok(Some(columns)),
    }
}

/// The filter, if there is one. What it says of columns is for the source to judge.
fn filter(section: &Section<'_>, dialect: Dialect) -> Result<Option<String>> {
    let Some(setting) = section.get("where")? else { return Ok(None) };
    let help = r#"write one expression on the row's own columns, such as "amount > 10 and status = 'paid'""#;
    let filter = Filter::new(setting.text()?, dialect).map_err(|why| setting.wrong(why).help(help))?;
    Ok(Some(filter.as_str().to_owned()))
}

pub(super) fn start(setting: &Setting<'_>) -> Result<Start> {
    let text = setting.text_or_time()?;
    match text.as_str() {
        "beginning" => Ok(Start::Beginning),
        "now" => Ok(Start::Now),
        time => time.parse::<Timestamp>().map(Start::Time).map_err(|_| {
            setting.wrong(format_args!("cannot be {}", quoted(time))).help(
                r#"it can be "beginning", "now" or a time with its offset, such as "2026-11-15T08:00:00Z""#,
            )
        }),
    }
}

/// Whether deletes are asked for where they can be had.
pub(super) fn deletes_of(section: &Section<'_>) -> Result<bool> {
    deletes(section, capture(section)?)
}

fn deletes(section: &Section<'_>, capture: CaptureKind) -> Result<bool> {
    let setting = section.get("deletes")?;
    let given = setting.as_ref().map(|setting| setting.truth().map(|truth| (setting, truth))).transpose()?;
    match (capture, given) {
        (CaptureKind::Journal | CaptureKind::Wal, Some((setting, false))) => {
            let error = setting
                .wrong(format_args!("cannot be false: a {} has every change, deletes too", capture.as_str()));
            Err(error.help(r#"remove it, or use capture = "log""#))
        }
        (CaptureKind::Window, Some((setting, true))) => {
            let error = setting.wrong("cannot be true: a row that is gone has no moment of change");
            Err(error.help(r#"remove it, or use capture = "journal" or "log""#))
        }
        (CaptureKind::Window, _) => Ok(false),
        (CaptureKind::Journal | CaptureKind::Wal, _) => Ok(true),
        (CaptureKind::Log, given) => Ok(given.is_some_and(|(_, truth)| truth)),
    }
}

pub(super) fn retry(section: &Section<'_>) -> Result<Retry> {
    let otherwise = Retry::default();
    let pauses = |setting: Setting<'_>| backoff(setting.text()?).map_err(|what| setting.wrong(what));
    let choices = [("park", Then::Park), ("skip", Then::Skip), ("stop", Then::Stop)];
    Ok(Retry {
        attempts: count(section, "attempts", otherwise.attempts, u32::MAX)?,
        backoff: section.get("backoff")?.map_or(Ok(otherwise.backoff), pauses)?,
        then: section.get("then")?.map_or(Ok(otherwise.then), |setting| setting.one_of(&choices))?,
    })
}

pub(super) fn lease(section: &Section<'_>) -> Result<LeaseSettings> {
    let otherwise = LeaseSettings::default();
    let lease = LeaseSettings {
        acquire: duration(section, "acquire", otherwise.acquire)?,
        renew: duration(section, "renew", otherwise.renew)?,
        expire: duration(section, "expire", otherwise.expire)?,
    };
    // One lost renewal must not cost the lease.
    if lease.expire < lease.renew * 2 {
        let what = format!(
            "lease.expire ({:?}) must be at least twice lease.renew ({:?}), or one lost renewal costs the lease",
            lease.expire, lease.renew
        );
        return Err(section.wrong(what).help("raise lease.expire or lower lease.renew"));
    }
    Ok(lease)
}

/// The whole number that a setting is, or the default.
pub fn count(section: &Section<'_>, key: &str, otherwise: u32, most: u32) -> Result<u32> {
    section.get(key)?.map_or(Ok(otherwise), |setting| setting.count(most))
}

pub(super) fn duration(section: &Section<'_>, key: &str, otherwise: Duration) -> Result<Duration> {
    section.get(key)?.map_or(Ok(otherwise), |setting| setting.duration())
}
