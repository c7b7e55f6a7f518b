//! The command line of `seriatim once`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use seriatim::once::State;

use super::steps::{Beat, Complete, Fail, Start};
use crate::config::duration;

/// `seriatim once`
#[derive(Debug, Subcommand)]
pub enum Once {
    /// Runs a command, unless it has run for this signal before: then prints what it printed that time.
    Run(Run),
    /// Claims a signal for a program that does the work itself, or says that it is completed or running.
    Start(Start),
    /// Gives a sign of life of an attempt, so that it may take longer than --max-processing-time.
    Beat(Beat),
    /// Records that the effect of an attempt happened. Ends with 1 when the attempt no longer counts.
    Complete(Complete),
    /// Gives an attempt's claim back, so that the next caller runs at once.
    Fail(Fail),
    /// Lists what is remembered.
    List(List),
    /// Shows what is remembered about one signal.
    Show(Show),
    /// Forgets a signal, so that it runs again.
    Forget(Forget),
    /// Says what became of a run that nobody knows the outcome of.
    Resolve(Resolve),
    /// Makes what the ledger needs in its store, or prints what would make it.
    Init(Init),
}

/// Which signal.
#[derive(Debug, Args)]
pub struct Which {
    /// Who handles it. All who share the work share this name.
    #[arg(long, value_name = "NAME")]
    pub processor: String,
    /// Which signal it is.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub id: String,
}

/// `seriatim once run`
#[derive(Debug, Args)]
pub struct Run {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// The most time that the command takes; after it, another caller takes over.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub max_processing_time: Duration,
    /// After how long the signal may run again; or never.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = expiry)]
    pub expires_after: Expiry,
    /// How long to wait for somebody else who is at it, before ending with 75.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = wait)]
    pub max_wait: Duration,
    /// Give signs of life while the command runs, so that it may take longer than --max-processing-time.
    #[arg(long)]
    pub heartbeat: bool,
    /// What a run that timed out becomes.
    #[arg(long, value_name = "WHAT", default_value = "rerun")]
    pub on_timeout: OnTimeout,
    /// The most bytes of output that are recorded.
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024)]
    pub max_output: usize,
    /// The command, after two hyphens.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// After how long a signal may run again; `None` for never.
#[derive(Clone, Copy, Debug)]
pub struct Expiry(pub Option<Duration>);

pub fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" { Ok(Expiry(None)) } else { duration(text).map(|after| Expiry(Some(after))) }
}

pub fn wait(text: &str) -> Result<Duration, String> {
    if ["0", "0s", "0ms"].contains(&text) { Ok(Duration::ZERO) } else { duration(text) }
}

/// What a run that timed out becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnTimeout {
    /// It runs again.
    Rerun,
    /// It is unknown until `once resolve` says what became of it.
    Unknown,
}

impl From<OnTimeout> for seriatim::once::OnTimeout {
    fn from(given: OnTimeout) -> Self {
        match given {
            OnTimeout::Rerun => seriatim::once::OnTimeout::Rerun,
            OnTimeout::Unknown => seriatim::once::OnTimeout::Unknown,
        }
    }
}

/// `seriatim once list`
#[derive(Debug, Args)]
pub struct List {
    /// Only of this processor.
    #[arg(long, value_name = "NAME")]
    pub processor: Option<String>,
    /// Only in this state: running, completed, unknown or expired.
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Option<State>,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| format!("is {}", crate::config::instead_of(text, &State::ALL.map(State::as_str))))
}

/// `seriatim once show`
#[derive(Debug, Args)]
pub struct Show {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim once forget`
#[derive(Debug, Args)]
pub struct Forget {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// Do it also while somebody may be at it: two may then run at the same time.
    #[arg(long)]
    pub force: bool,
}

/// `seriatim once resolve`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub struct Resolve {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// It took effect: it does not run again.
    #[arg(long, group = "outcome")]
    pub completed: bool,
    /// It did not take effect: the next caller runs it.
    #[arg(long, group = "outcome", alias = "run-again")]
    pub rerun: bool,
    /// What it printed, for those who ask later.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        conflicts_with = "rerun",
        allow_hyphen_values = true
    )]
    pub output: String,
    /// After how long the signal may run again; or never.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = expiry, conflicts_with = "rerun")]
    pub expires_after: Expiry,
}

/// `seriatim once init`
#[derive(Debug, Args)]
pub struct Init {
    /// Print what would make it, and change nothing.
    #[arg(long, value_name = "FORM")]
    pub print: Option<Form>,
}

/// In which form to print what the ledger needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// SQL, for SQL databases.
    Sql,
    /// A CloudFormation template, for DynamoDB.
    Cloudformation,
    /// A Terraform resource, for DynamoDB.
    Terraform,
}
