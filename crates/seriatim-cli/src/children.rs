//! Child processes: the step by which they die with this process, and the variables of the environment that they do not get:
//! settings of Seriatim's own, which may have passwords in them, and secrets that Seriatim itself was given.

use std::ffi::OsString;
use std::process::ExitCode;

use seriatim_handlers::command;

use crate::config::{Config, HandlerConfig, HandlerKind};

/// What every setting of Seriatim's begins with.
const OWN: &str = "SERIATIM_";

/// The one setting that has no secret in it and that a `seriatim` inside of a command may need.
const CONFIG: &str = "SERIATIM_CONFIG";

/// Where Seriatim takes the password of PostgreSQL from.
const POSTGRES: &str = "PGPASSWORD";

/// The first argument of this program when it is only to become a command that dies with its host.
const LAUNCH: &str = "__launch";

/// What shells answer for a command that cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// This program, as the step that binds a command's life to this process's; nothing where the system has no such bond.
pub fn launcher() -> Vec<OsString> {
    match cfg!(target_os = "linux") {
        // Also when the file of this program was replaced in the meantime.
        true => ["/proc/self/exe", LAUNCH].map(OsString::from).to_vec(),
        false => Vec::new(),
    }
}

/// Becomes the command if that is what this process was started for; `None` if it was not.
pub fn launched() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != LAUNCH {
        return None;
    }
    let host = arguments.next()?.to_str()?.parse().ok()?;
    let command: Vec<OsString> = arguments.collect();
    let error = command::launch(host, &command);
    eprintln!("{} cannot be run: {error}", command.first()?.display());
    Some(ExitCode::from(NOT_RUNNABLE))
}

/// The variables that are Seriatim's own, of all that there are.
pub fn own() -> Vec<OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(is_own).collect()
}

fn is_own(name: &OsString) -> bool {
    name.to_string_lossy().starts_with(OWN) && name != CONFIG
}

/// The variables that the command of a handler does not get, unless its `environment` names them.
pub fn withheld(config: &Config, passed: &[String]) -> Vec<OsString> {
    let handlers = config.feeds.values().map(|feed| &feed.handler);
    let handlers = handlers.chain(config.queues.values().map(|queue| &queue.handler));
    let secrets = handlers.flat_map(secret_variables).map(OsString::from);
    let all = own().into_iter().chain([OsString::from(POSTGRES)]).chain(secrets);
    all.filter(|name| !passed.iter().any(|passed| name == passed.as_str())).collect()
}

fn secret_variables(handler: &HandlerConfig) -> Vec<&str> {
    match &handler.kind {
        HandlerKind::Sink(sink) => sink.secret_variables(),
        HandlerKind::Sql { .. } => Vec::new(),
    }
}
