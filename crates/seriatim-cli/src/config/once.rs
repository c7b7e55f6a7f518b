//! `once` on a feed: each change goes through the ledger in the store.

use std::time::Duration;

use seriatim::once::OnTimeout;

use super::HandlerKind;
use super::parse::duration;
use super::section::Section;
use crate::error::Result;

/// Longer than anybody lets a crashed feed lie, and no longer than that: each change of that time is a record.
const EXPIRES_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a feed's changes are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceConfig {
    /// For how long.
    pub expires_after: Duration,
    /// What becomes of a change whose host died over it.
    pub on_timeout: OnTimeout,
}

/// Reads what a feed says about it; `None` where it wants no ledger.
pub(super) fn once(section: &Section<'_>, handler: &HandlerKind) -> Result<Option<OnceConfig>> {
    let setting = section.get("once")?;
    let wanted = setting.as_ref().map_or(Ok(false), |setting| setting.truth())?;
    if !wanted {
        for key in ["once_expires_after", "once_on_timeout"] {
            if let Some(setting) = section.get(key)? {
                return Err(setting
                    .wrong("means nothing without once = true")
                    .help("add it, or remove this"));
            }
        }
        return Ok(None);
    }
    let may_be = matches!(handler, HandlerKind::Sink(sink) if sink.may_be_remembered());
    if let Some(setting) = setting.filter(|_| !may_be) {
        let help = "remove it; sql in the database that is also the store is exactly once by itself";
        return Err(setting.wrong("is for handlers with command or webhook").help(help));
    }
    let choices = [("rerun", OnTimeout::Rerun), ("unknown", OnTimeout::Unknown)];
    let on_timeout = section.get("once_on_timeout")?;
    Ok(Some(OnceConfig {
        expires_after: duration(section, "once_expires_after", EXPIRES_AFTER)?,
        on_timeout: on_timeout.map_or(Ok(OnTimeout::Rerun), |setting| setting.one_of(&choices))?,
    }))
}
