//! The variables of the environment that child processes do not get: settings of Seriatim's own, which may have passwords in
//! them, and secrets that Seriatim itself was given.

use std::ffi::OsString;

use crate::config::{Config, HandlerConfig, HandlerKind};

/// What every setting of Seriatim's begins with.
const OWN: &str = "SERIATIM_";

/// The one setting that has no secret in it and that a `seriatim` inside of a command may need.
const CONFIG: &str = "SERIATIM_CONFIG";

/// Where Seriatim takes the password of PostgreSQL from.
const POSTGRES: &str = "PGPASSWORD";

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
    let secrets = handlers.filter_map(secret_variable).map(OsString::from);
    let all = own().into_iter().chain([OsString::from(POSTGRES)]).chain(secrets);
    all.filter(|name| !passed.iter().any(|passed| name == passed.as_str())).collect()
}

fn secret_variable(handler: &HandlerConfig) -> Option<&str> {
    match &handler.kind {
        HandlerKind::Sink(sink) => sink.secret_variable(),
        HandlerKind::Sql { .. } => None,
    }
}
