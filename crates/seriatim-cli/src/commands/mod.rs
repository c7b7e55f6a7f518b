//! What the program can do, one file for each command.

mod demo;
mod init;
mod check;
mod watch;
mod unwatch;
mod run;
mod status;
mod tail;
mod rewind;
pub mod parked;
mod lease;
pub mod once;
mod queue;
pub mod gate;
mod pg_log;
mod pause;
pub mod serve;
mod strays;
mod again;
mod bench;
mod top;
mod manual;
pub mod owners;

use std::path::Path;

use crate::args::{Arguments, Command};
use crate::config::{Config, Environment};
use crate::error::Result;

/// Does what the command line says.
pub async fn execute(arguments: Arguments) -> Result<()> {
    let file = arguments.global.config.as_path();
    match arguments.command {
        Command::Demo(arguments) => demo::execute(&arguments).await,
        Command::Init(arguments) => init::execute(file, &arguments),
        Command::Check => check::execute(&load(file)?).await,
        Command::Watch(arguments) => watch::execute(&load(file)?, &arguments).await,
        Command::Unwatch(arguments) => unwatch::execute(&load(file)?, &arguments).await,
        Command::Run(arguments) => run::execute(&load(file)?, &arguments).await,
        Command::Status(arguments) => status::execute(&load(file)?, &arguments).await,
        Command::Pause(arguments) => pause::pause(&load(file)?, &arguments).await,
        Command::Resume(arguments) => pause::resume(&load(file)?, &arguments).await,
        Command::Tail(arguments) => tail::execute(&load(file)?, &arguments).await,
        Command::Rewind(arguments) => rewind::execute(&load(file)?, &arguments).await,
        Command::Parked(arguments) => parked::execute(&load(file)?, &arguments).await,
        Command::Lease(arguments) => lease::execute(&load(file)?, &arguments).await,
        Command::Once(arguments) => once::execute(file, &arguments).await,
        Command::Queue(arguments) => queue::execute(&load(file)?, &arguments).await,
        Command::Gate(arguments) => gate::execute(file, &arguments).await,
        Command::PgLog(arguments) => pg_log::execute(&arguments),
        Command::Serve(arguments) => serve::execute(&load(file)?, &arguments).await,
        Command::Bench(arguments) => bench::execute(&arguments).await,
        Command::Top(arguments) => top::execute(&load(file)?, &arguments).await,
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man => manual::man(),
    }
}

/// Reads the configuration, and warns of what is odd in it.
fn load(file: &Path) -> Result<Config> {
    let config = Config::load(file, &Environment::of_process())?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    Ok(config)
}
