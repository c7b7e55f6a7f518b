//! The command lines of `seriatim once start`, `beat`, `complete` and `fail`.

use std::time::Duration;

use clap::Args;

use super::super::arguments::{Expiry, OnTimeout, Which, expiry, wait};
use crate::config::duration;

/// `seriatim once start`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seriatim once start --processor mailer --id order-42 --json")]
pub struct Start {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// The most time between this and `once complete`, or the next `once beat`; after it, another caller takes over.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub max_processing_time: Duration,
    /// How long to wait for another caller that is at it, before ending with 75.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = wait)]
    pub max_wait: Duration,
    /// What a run that timed out becomes.
    #[arg(long, value_name = "WHAT", default_value = "rerun")]
    pub on_timeout: OnTimeout,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which attempt at which signal.
#[derive(Debug, Args)]
pub struct Whose {
    /// Which signal.
    #[command(flatten)]
    pub which: Which,
    /// The attempt that `once start` printed.
    #[arg(long, value_name = "ATTEMPT")]
    pub attempt: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `seriatim once beat`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  seriatim once beat --processor mailer --id order-42 --attempt \"$attempt\""
)]
pub struct Beat {
    /// Which attempt.
    #[command(flatten)]
    pub whose: Whose,
}

/// `seriatim once complete`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  seriatim once complete --processor mailer --id order-42 --attempt \"$attempt\" --result '{\"sent\":true}'"
)]
pub struct Complete {
    /// Which attempt.
    #[command(flatten)]
    pub whose: Whose,
    /// What later callers are told, as JSON; - reads it from the standard input.
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub result: String,
    /// After how long the signal may run again; or never.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = expiry)]
    pub expires_after: Expiry,
}

/// `seriatim once fail`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  seriatim once fail --processor mailer --id order-42 --attempt \"$attempt\""
)]
pub struct Fail {
    /// Which attempt.
    #[command(flatten)]
    pub whose: Whose,
}
