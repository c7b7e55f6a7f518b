//! The handlers outside of Rust, with somebody on the other side who does nothing but answer.

mod command;
mod webhook;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use seriatim::handler::{Handler, Handling};
use seriatim::host::FeedSettings;
use seriatim::source::Start;
use seriatim::{Change, Context, Failure};
use tempfile::TempDir;

pub(crate) use command::command_echo;
pub(crate) use webhook::webhook_echo;

use crate::Backlog;
use crate::journal_drain;

/// How often each side does the whole of it, in turns. Both keep all processors busy for seconds: whatever else the machine does
/// meanwhile moves a round by a tenth, and only the one in the middle of several says something.
const ROUNDS: usize = 7;

/// A journal to drain, and the same changes as lines of JSON for whoever does it without Seriatim.
struct Stage {
    folder: TempDir,
    backlog: Backlog,
}

impl Stage {
    /// Makes what each round drains.
    async fn set(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Self> {
        let stage = Stage { folder: tempfile::tempdir()?, backlog };
        progress(&format!("writing {} changes", backlog.changes()));
        journal_drain::prepare(&stage.master(), backlog).await?;
        let copy = stage.copy("lines.db")?;
        let lines = Arc::new(Lines(Mutex::new(BufWriter::new(File::create(stage.lines())?))));
        let handling = Handling::AtLeastOnce(Arc::clone(&lines) as Arc<dyn Handler>);
        journal_drain::drain_by(&copy, backlog, handling, settings(100, 8)).await?;
        lines.0.lock().unwrap_or_else(PoisonError::into_inner).flush()?;
        Ok(stage)
    }

    fn master(&self) -> PathBuf {
        self.folder.path().join("master.db")
    }

    /// The file with one line for each change.
    fn lines(&self) -> PathBuf {
        self.folder.path().join("changes.jsonl")
    }

    /// The journal as it was before anybody drained it.
    fn copy(&self, name: &str) -> anyhow::Result<PathBuf> {
        let copy = self.folder.path().join(name);
        fs::copy(self.master(), &copy)?;
        Ok(copy)
    }

    /// How many changes a second this handling drains.
    async fn drain(&self, round: usize, handling: Handling, settings: FeedSettings) -> anyhow::Result<f64> {
        // Another name each time: beside a database lie files that belong to it.
        let copy = self.copy(&format!("round-{round}.db"))?;
        journal_drain::drain_by(&copy, self.backlog, handling, settings).await
    }
}

fn settings(batch: usize, concurrency: usize) -> FeedSettings {
    FeedSettings { start: Start::Now, batch, concurrency, ..FeedSettings::default() }
}

/// Writes changes into a file.
struct Lines(Mutex<BufWriter<File>>);

#[async_trait::async_trait]
impl Handler for Lines {
    async fn handle(&self, changes: &[Change], _: &Context) -> Result<(), Failure> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            writeln!(file, "{}", change.to_json())?;
        }
        Ok(())
    }
}
