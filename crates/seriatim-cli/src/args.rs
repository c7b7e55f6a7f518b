//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::DEFAULT_FILE;

/// Every change of a database's records, handled in order, once.
#[derive(Debug, Parser)]
#[command(name = "seriatim", version, max_term_width = 110)]
pub struct Arguments {
    /// What all commands take.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands take.
#[derive(Debug, Args)]
pub struct Global {
    /// The config file; paths in it are relative to it.
    #[arg(short, long, global = true, value_name = "FILE", env = "SERIATIM_CONFIG", default_value = DEFAULT_FILE)]
    pub config: PathBuf,
    /// How logs are written to the standard error. SERIATIM_LOG says which (info, debug, seriatim=trace, …).
    #[arg(long, global = true, value_name = "FORMAT", env = "SERIATIM_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows it all in one minute: writers, three hosts, one of them killed, and the proof at the end.
    Demo(Demo),
    /// Writes a commented config file.
    Init(Init),
    /// Connects to everything the config names and says what is wrong and how to mend it.
    Check,
    /// Installs what a feed needs in its source (triggers, tables). `run` does it by itself.
    Watch(Watch),
    /// Takes what a feed needed out of its source again, and forgets how far the feed was.
    Unwatch(Unwatch),
    /// Runs feeds as one host until SIGTERM or SIGINT.
    Run(Run),
    /// Shows feeds, partitions, owners, positions, lag, what is parked and what blocks.
    Status(Status),
    /// Has all hosts stand still with a feed, until it is resumed: also after a restart.
    Pause(Pause),
    /// Lets a paused feed go on.
    Resume(Resume),
    /// Prints a feed's changes as they come, as JSON lines, without owning anything.
    Tail(Tail),
    /// Sets a feed back or forward.
    Rewind(Rewind),
    /// Shows objects that could not be handled, has them tried again, or drops what cannot be handled.
    #[command(subcommand)]
    Parked(Parked),
    /// Shows who owns which partition, frees one, or moves one to another host.
    #[command(subcommand)]
    Lease(Lease),
    /// Protects commands: each runs once for each signal, whoever calls. Shows, forgets and resolves signals.
    #[command(subcommand)]
    Once(crate::commands::once::Once),
    /// Pushes events into a queue, shows what is in one, and looks for what should not be.
    #[command(subcommand)]
    Queue(Queue),
    /// Lets events through in order and once: JSON lines from the standard input to the standard output.
    Gate(crate::commands::gate::Arguments),
    /// Prints the SQL of PostgreSQL's logs, for migration tools and programs in other languages.
    #[command(name = "pg-log")]
    PgLog(PgLog),
    /// Serves a page and a JSON API: look at feeds, hosts and what is parked, and act with a token (SERIATIM_TOKEN).
    Serve(Serve),
    /// Shows feeds, partitions, parked objects and hosts in the terminal, every two seconds, and acts on them.
    Top(Top),
    /// Measures how fast it is on this machine.
    Bench(Bench),
    /// Prints the completion script of a shell.
    Completions(Completions),
    /// Prints the manual page, with all commands.
    Man,
}

/// `seriatim top`
#[derive(Debug, Args)]
pub struct Top {
    /// Show, and let nobody act.
    #[arg(long)]
    pub read_only: bool,
}

/// `seriatim completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL", value_parser = shell)]
    pub shell: clap_complete::Shell,
}

/// The shells of which the scripts are tested.
fn shell(name: &str) -> Result<clap_complete::Shell, String> {
    use clap_complete::Shell::{Bash, Fish, Zsh};
    let known = [Bash, Zsh, Fish].into_iter().find(|shell| shell.to_string() == name);
    known.ok_or_else(|| "the shells are bash, zsh and fish".to_owned())
}

/// `seriatim serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen: a port of this machine's own, or an address. One that others can reach needs SERIATIM_TOKEN.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9465", value_parser = crate::metrics::address)]
    pub listen: std::net::SocketAddr,
    #[command(flatten)]
    pub shown: Shown,
}

/// How the page is shown.
#[derive(Clone, Debug, Default, Args)]
pub struct Shown {
    /// Under which path, behind a proxy.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub base_path: String,
    /// Show, and let nobody act.
    #[arg(long)]
    pub read_only: bool,
    /// Show keys, and no rows.
    #[arg(long)]
    pub hide_payloads: bool,
    /// A name by which the page is reached, behind a proxy: requests for other names are refused.
    #[arg(long = "name", value_name = "HOST")]
    pub names: Vec<String>,
}

/// `seriatim demo`
#[derive(Debug, Args)]
pub struct Demo {
    /// How long the writers work.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Show it on the page, too, as long as it lasts. On port 9465 unless told otherwise.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:9465", value_parser = crate::metrics::address)]
    pub serve: Option<std::net::SocketAddr>,
}

/// `seriatim init`
#[derive(Debug, Args)]
pub struct Init {
    /// Overwrite a config file that is there already.
    #[arg(long)]
    pub force: bool,
}

/// `seriatim watch`
#[derive(Debug, Args)]
pub struct Watch {
    /// The feed; all feeds when left out.
    #[arg(value_name = "FEED")]
    pub feed: Option<String>,
    /// Show the SQL and change nothing.
    #[arg(long)]
    pub print: bool,
}

/// `seriatim unwatch`
#[derive(Debug, Args)]
pub struct Unwatch {
    /// The feed or queue; all when left out. It may be one that the config names no more.
    #[arg(value_name = "FEED")]
    pub feed: Option<String>,
    /// Do it also while a host owns partitions of it, and when its source is gone. The events that wait in a queue are dropped.
    #[arg(long)]
    pub force: bool,
    /// Take the feed out of its source for another store, one that is lost. `status` names stores that hold changes back.
    #[arg(long, value_name = "STORE", requires = "feed")]
    pub store: Option<String>,
    /// Take out everything that Seriatim has made in the sources and the store of the config: tables, triggers, checkpoints, signals.
    #[arg(long, conflicts_with_all = ["feed", "store"])]
    pub purge: bool,
}

/// `seriatim run`
#[derive(Debug, Args)]
pub struct Run {
    /// The feeds; all feeds when left out.
    #[arg(value_name = "FEED")]
    pub feeds: Vec<String>,
    /// The name of this host, unlike any other's [default: the machine's name and the process id].
    #[arg(long, value_name = "NAME", env = "SERIATIM_HOST")]
    pub host: Option<String>,
    /// Handle what is there, and end: with 0 when all of it is handled, with 1 when anything is parked, stopped or out of reach.
    #[arg(long)]
    pub once: bool,
    /// With --once: end after this time at the latest [default: after five minutes without progress].
    #[arg(long, value_name = "TIME", requires = "once", value_parser = crate::config::duration)]
    pub within: Option<std::time::Duration>,
    /// Where to serve metrics for Prometheus: a port of this machine's own (9464), or an address (0.0.0.0:9464).
    #[arg(long, value_name = "ADDR", env = "SERIATIM_METRICS", value_parser = crate::metrics::address)]
    pub metrics: Option<std::net::SocketAddr>,
    /// Where to serve the page and the JSON API, as `seriatim serve` does.
    #[arg(long, value_name = "ADDR", value_parser = crate::metrics::address)]
    pub serve: Option<std::net::SocketAddr>,
}

/// `seriatim status`
#[derive(Debug, Args)]
pub struct Status {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Every partition, too.
    #[arg(long)]
    pub partitions: bool,
    /// Again and again, every so many seconds [default: 2], until SIGINT.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub watch: Option<u32>,
}

/// `seriatim pause`
#[derive(Debug, Args)]
pub struct Pause {
    /// The feed or queue.
    #[arg(value_name = "FEED")]
    pub feed: String,
}

/// `seriatim resume`
#[derive(Debug, Args)]
pub struct Resume {
    /// The feed or queue.
    #[arg(value_name = "FEED")]
    pub feed: String,
}

/// `seriatim tail`
#[derive(Debug, Args)]
pub struct Tail {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// Where to begin: beginning (as far back as the source still has changes), now, or a position.
    #[arg(long, value_name = "WHERE", default_value = "now")]
    pub from: String,
    /// End after so many changes.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

/// `seriatim rewind`
#[derive(Debug, Args)]
pub struct Rewind {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// Where to: beginning, now, a time (2026-11-15T08:00:00Z) or a position.
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub to: String,
    /// Only this partition.
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    /// Do it also while a host owns it: the host loses its lease and reads on from the new place.
    #[arg(long)]
    pub force: bool,
    /// For feeds with once = true: have changes run again that were handled before.
    #[arg(long)]
    pub again: bool,
    /// Do not ask before everything is handled again.
    #[arg(long)]
    pub yes: bool,
}

/// `seriatim parked`
#[derive(Debug, Subcommand)]
pub enum Parked {
    /// Shows what is parked, by what went wrong.
    List(ParkedList),
    /// Shows one parked object with the changes that wait, and what was discarded of it.
    Show(ParkedShow),
    /// Has parked objects tried again, and waits until they are handled or have failed again.
    Retry(ParkedRetry),
    /// Drops the change that cannot be handled; the object's later changes go on.
    Discard(ParkedDiscard),
}

/// `seriatim parked list`
#[derive(Debug, Args)]
pub struct ParkedList {
    /// The feed; all feeds when left out.
    #[arg(value_name = "FEED")]
    pub feed: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Also those that failed just now and are tried again by themselves.
    #[arg(long)]
    pub all: bool,
}

/// `seriatim parked show`
#[derive(Debug, Args)]
pub struct ParkedShow {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The object's key, such as {"id":42}.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub key: String,
    /// How many of the waiting changes to show.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim parked retry`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["key", "all"]))]
pub struct ParkedRetry {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The object's key, such as {"id":42}.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub key: Option<String>,
    /// All parked objects of the feed.
    #[arg(long)]
    pub all: bool,
    /// Mark them and do not wait.
    #[arg(long)]
    pub no_wait: bool,
}

/// `seriatim parked discard`
#[derive(Debug, Args)]
pub struct ParkedDiscard {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The object's key, such as {"id":42}.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub key: String,
    /// Why; it is kept.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: String,
    /// Drop all that waits, not only the change that failed.
    #[arg(long)]
    pub tail: bool,
}

/// `seriatim lease`
#[derive(Debug, Subcommand)]
pub enum Lease {
    /// Shows all leases.
    List(LeaseList),
    /// Frees a partition whose owner is gone, without waiting for its lease to expire.
    Release(LeaseRelease),
    /// Has a partition handed over to another host, without doing anything twice.
    Move(LeaseMove),
}

/// `seriatim lease list`
#[derive(Debug, Args)]
pub struct LeaseList {
    /// The feed; all feeds when left out.
    #[arg(value_name = "FEED")]
    pub feed: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim lease release`
#[derive(Debug, Args)]
pub struct LeaseRelease {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The partition.
    #[arg(value_name = "PARTITION")]
    pub partition: u32,
    /// Take it also from a host that may be alive: what it had not checkpointed is handled again.
    #[arg(long)]
    pub force: bool,
}

/// `seriatim lease move`
#[derive(Debug, Args)]
pub struct LeaseMove {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The partition.
    #[arg(value_name = "PARTITION")]
    pub partition: u32,
    /// The host that is to have it.
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Do not wait until it has it.
    #[arg(long)]
    pub no_wait: bool,
}

/// `seriatim queue`
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// Pushes the events of an object, in one step.
    Push(QueuePush),
    /// Shows the objects that have events, are held or parked; or one object.
    Inspect(QueueInspect),
    /// Reads the whole state, and names every invariant that does not hold.
    Invariants(QueueInvariants),
    /// Takes over the events of workers that another program left in Redis. Stop those workers first.
    Adopt(QueueAdopt),
}

/// `seriatim queue push`
#[derive(Debug, Args)]
pub struct QueuePush {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The object that the events are about, such as work:1.
    #[arg(value_name = "OBJECT")]
    pub object: String,
    /// The main event, as JSON.
    #[arg(value_name = "MAIN", allow_hyphen_values = true)]
    pub main: String,
    /// Sub-events, as JSON.
    #[arg(value_name = "SUB", allow_hyphen_values = true)]
    pub subs: Vec<String>,
}

/// `seriatim queue inspect`
#[derive(Debug, Args)]
pub struct QueueInspect {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// The object; all that are not at rest when left out.
    #[arg(value_name = "OBJECT")]
    pub object: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim queue adopt`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seriatim queue adopt works")]
pub struct QueueAdopt {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
}

/// `seriatim queue invariants`
#[derive(Debug, Args)]
pub struct QueueInvariants {
    /// The feed.
    #[arg(value_name = "FEED")]
    pub feed: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim pg-log`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seriatim pg-log --schema app_log > migrations/V1__log.sql")]
pub struct PgLog {
    /// The schema that the tables and functions are in: lower-case letters, digits and underscores.
    #[arg(long, value_name = "NAME", default_value = "seriatim")]
    pub schema: String,
}

/// `seriatim bench`
#[derive(Debug, Args)]
pub struct Bench {
    /// The measurements; all when left out.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// A PostgreSQL server to measure on, in databases of the measurement's own; a throw-away one is started when left out.
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// A Redis server to measure on; a throw-away one is started when left out.
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// How many changes the backlog has.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub changes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Arguments {
        Arguments::try_parse_from(line.split_whitespace()).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_config_file_can_be_named_anywhere() {
        for line in [
            "seriatim -c a.toml run totals",
            "seriatim run -c a.toml totals",
            "seriatim run totals -c a.toml",
        ] {
            assert_eq!(parse(line).global.config, PathBuf::from("a.toml"), "{line}");
        }
    }

    #[test]
    fn the_host_is_named_only_when_it_runs() {
        assert!(matches!(parse("seriatim run --host a").command, Command::Run(Run { host: Some(_), .. })));
        assert!(Arguments::try_parse_from(["seriatim", "status", "--host", "a"]).is_err());
    }
}
