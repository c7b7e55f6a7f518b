//! `seriatim pause` and `seriatim resume`: has the hosts stand still with a feed, and lets them go on.

use crate::args::{Pause, Resume};
use crate::config::Config;
use crate::error::Result;
use crate::{databases, output};

/// Runs `pause`.
pub async fn pause(config: &Config, arguments: &Pause) -> Result<()> {
    let feed = config.named(&arguments.feed)?;
    let paused = databases::open_store(&config.store).await?.pause(feed).await?;
    match paused {
        true => output::line(format_args!(
            "feed {feed}: paused; running hosts stop within a second and keep their leases; `seriatim resume {feed}` lets it go on"
        ))?,
        false => output::line(format_args!("feed {feed}: was paused already"))?,
    }
    Ok(())
}

/// Runs `resume`.
pub async fn resume(config: &Config, arguments: &Resume) -> Result<()> {
    let feed = config.named(&arguments.feed)?;
    let resumed = match databases::existing_store(&config.store).await? {
        Some(store) => store.resume(feed).await?,
        None => false,
    };
    match resumed {
        true => output::line(format_args!("feed {feed}: resumed; running hosts go on within a second"))?,
        false => output::line(format_args!("feed {feed}: was not paused"))?,
    }
    Ok(())
}
