//! `command = ["…"]`: a child process that answers lines.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::source::Blocker;
use seriatim_handlers::{CommandSettings, Guarantee, Sink, command};
use tokio::sync::Notify;

use super::sinks::{Place, SinkKind, SinkSettings};
use crate::children;
use crate::config::{Config, Section, Setting, count};
use crate::error::{Error, Result};

pub const SINK: SinkKind = SinkKind {
    key: "command",
    example: r#"command = ["…"]"#,
    settings: &["processes", "environment"],
    sections: &[],
    read,
};

const MOST_PROCESSES: u32 = 1_000;

/// At most so many lines of one child are unanswered at the same time, or one batch if that is more.
const AHEAD: usize = 256;

#[derive(Debug)]
struct Command {
    /// The program and its arguments.
    command: Vec<String>,
    /// How many of it run at the same time.
    processes: u32,
    /// Variables of the environment that it gets although they may be secrets.
    environment: Vec<String>,
}

fn read(section: &Section<'_>, setting: &Setting<'_>) -> Result<Arc<dyn SinkSettings>> {
    let help = r#"write it as a list: command = ["python3", "handle.py"]"#;
    let command = setting.texts().map_err(|error| error.help(help))?;
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(setting.wrong("names no program").help(help));
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err(setting.wrong("has a zero byte in it"));
    }
    let processes = count(section, "processes", 1, MOST_PROCESSES)?;
    let environment =
        section.get("environment")?.map(|setting| setting.texts()).transpose()?.unwrap_or_default();
    Ok(Arc::new(Command { command, processes, environment }))
}

#[async_trait]
impl SinkSettings for Command {
    async fn guarantee(&self, _: &Place<'_>) -> Guarantee {
        command::Command::guarantee()
    }

    /// A command works on one change after another: what it has not begun is better held by whoever may have to hand it over.
    fn batch_and_concurrency(&self) -> (u32, u32) {
        (32, self.processes)
    }

    fn check(&self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    async fn reach(&self, place: &Place<'_>) -> Result<()> {
        let program = self.command.first().map_or("", String::as_str);
        let help = format!("mend feed.{}.handler.command, or install the program", place.feed);
        let found = command::find(program, folder(place.config));
        found.map(drop).map_err(|problem| Error::failed(problem.to_string()).help(help))
    }

    fn warnings(&self, place: &Place<'_>) -> Vec<Blocker> {
        let folder = folder(place.config);
        let missing =
            self.command.iter().skip(1).filter(|word| is_script(word) && !folder.join(word).is_file());
        let warning = |script: &String| Blocker {
            what: format!("there is no file {script} in {}", folder.display()),
            remedy: format!(
                "mend feed.{}.handler.command: paths are relative to the config file",
                place.feed
            ),
            ..Blocker::default()
        };
        missing.map(warning).collect()
    }

    async fn open(&self, place: &Place<'_>, _: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(command::Command::new(CommandSettings {
            feed: place.feed.clone(),
            command: self.command.clone(),
            folder: folder(place.config).to_owned(),
            processes: self.processes as usize,
            ahead: AHEAD.max(place.handler.batch),
            timeout: place.handler.timeout,
            withheld: children::withheld(place.config, &self.environment),
            envelope: place.envelope(),
            launcher: children::launcher(),
        })))
    }
}

/// What files of programs that others run are called.
const SCRIPTS: [&str; 14] =
    ["py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "sh", "jar", "lua", "exs", "tcl", "r"];

/// Whether a word of a command looks like the file that is to be run.
fn is_script(word: &str) -> bool {
    let end = Path::new(word).extension().and_then(|end| end.to_str()).map(str::to_lowercase);
    !word.starts_with('-') && end.is_some_and(|end| SCRIPTS.contains(&end.as_str()))
}

/// The config file's folder: what a command's paths are relative to.
fn folder(config: &Config) -> &Path {
    config.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
