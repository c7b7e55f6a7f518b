//! When checkpoints are written: `checkpoint = "100ms"`, `"batch"` or `"1000 changes"`.

use seriatim::host::CheckpointPolicy;

use super::duration::duration;
use super::section::{Section, Setting};
use super::url::quoted;
use crate::error::Result;

/// The policy that a feed's section asks for.
pub(super) fn checkpoint(section: &Section<'_>) -> Result<CheckpointPolicy> {
    section.get("checkpoint")?.map_or(Ok(CheckpointPolicy::default()), |setting| policy(&setting))
}

fn policy(setting: &Setting<'_>) -> Result<CheckpointPolicy> {
    let text = setting.text()?.trim();
    if text == "batch" {
        return Ok(CheckpointPolicy::Batch);
    }
    let wrong = || {
        setting.wrong(format_args!("cannot be {}", quoted(text))).help(
            r#"it can be "batch" (after each), a number of changes, such as "1000 changes", or a time, such as "100ms""#,
        )
    };
    match text.strip_suffix("changes").or(text.strip_suffix("change")) {
        Some(count) => match count.trim().parse() {
            Ok(count) if count > 0 => Ok(CheckpointPolicy::Changes(count)),
            _ => Err(wrong()),
        },
        None => duration(text).map(CheckpointPolicy::Time).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::environment::Environment;
    use super::super::parse::config;
    use super::*;

    fn of(line: &str) -> Result<CheckpointPolicy> {
        let text = format!(
            "store = \"sqlite:s.db\"\n[source.s]\nurl = \"sqlite:s.db\"\n[feed.f]\nsource = \"s\"\ncapture = \"journal\"\n\
             table = \"t\"\n{line}\n[feed.f.handler]\nstdout = true\n"
        );
        let config = config(Path::new("seriatim.toml"), &text, &Environment::default())?;
        Ok(config.feeds.values().next().unwrap().checkpoint)
    }

    #[test]
    fn a_policy_is_a_time_a_number_of_changes_or_each_batch() {
        let policies = [
            ("", CheckpointPolicy::Time(Duration::from_millis(100))),
            (r#"checkpoint = "5s""#, CheckpointPolicy::Time(Duration::from_secs(5))),
            (r#"checkpoint = "1000 changes""#, CheckpointPolicy::Changes(1000)),
            (r#"checkpoint = "1 change""#, CheckpointPolicy::Changes(1)),
            (r#"checkpoint = "batch""#, CheckpointPolicy::Batch),
        ];
        for (line, policy) in policies {
            assert_eq!(of(line).unwrap(), policy, "{line}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_with_what_could_be() {
        for wrong in ["0 changes", "many changes", "manual", "0s", "7"] {
            let error = of(&format!("checkpoint = {wrong:?}")).unwrap_err();
            assert!(error.sentence().contains("feed.f.checkpoint"), "{}", error.sentence());
            assert!(error.remedy().is_some_and(|help| help.contains("1000 changes")), "{wrong}");
        }
    }
}
