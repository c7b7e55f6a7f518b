//! The command line of `seriatim gate`.

use std::time::Duration;

use clap::Args;

use crate::config::duration;

/// `seriatim gate`
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has `id`, `prev` and `object` (or `key`).\n\nExample:\n  seriatim gate partner < events.jsonl | ./apply"
)]
pub struct Arguments {
    /// The gate: one for each consumer. What it has let through, and what it holds, is kept in the store under this name.
    #[arg(value_name = "NAME", default_value = "default")]
    pub name: String,
    /// The most events that are held because one before them is missing.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub hold: usize,
    /// After how long a missing event is reported.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub wait: Duration,
    /// The lines are states of a log feed: a newer one takes the place of all before it.
    #[arg(long)]
    pub states: bool,
    /// Make what gates need in the store, and end. On PostgreSQL this includes the function `seriatim.gate_admit`.
    #[arg(long)]
    pub init: bool,
    /// Print the SQL that makes it, and change nothing.
    #[arg(long, conflicts_with = "init")]
    pub print: bool,
}
