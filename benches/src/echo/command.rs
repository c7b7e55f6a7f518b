//! Draining a journal through a command that only answers, against writing the same lines into the same command's bare pipe and
//! reading its answers.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use seriatim::handler::Handling;
use seriatim::{FeedName, clock};
use seriatim_handlers::{Command, CommandSettings};

use super::{ROUNDS, Stage, settings};
use crate::rounds::Rounds;
use crate::{Backlog, Row};

/// What most people would write.
const ECHO: [&str; 3] =
    ["python3", "-c", "import sys\nfor line in sys.stdin: print('{\"ok\":true}', flush=True)"];

/// Measures it; `None` when there is no Python.
pub(crate) async fn command_echo(
    backlog: Backlog,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Option<Row>> {
    let folder = std::env::current_dir()?;
    if seriatim_handlers::command::find(ECHO[0], &folder).is_err() {
        progress("command-echo is left out: there is no python3");
        return Ok(None);
    }
    let stage = Stage::set(backlog, progress).await?;
    let mut rounds = Rounds::default();
    for round in 1..=ROUNDS {
        progress(&format!(
            "{} changes through a command, round {round} of {ROUNDS}",
            stage.backlog.changes()
        ));
        let limit = bare_pipe(&stage)?;
        let command = Arc::new(Command::new(CommandSettings {
            feed: FeedName::new("orders")?,
            command: ECHO.map(str::to_owned).to_vec(),
            folder: folder.clone(),
            processes: 1,
            ahead: 256,
            timeout: Duration::from_secs(30),
            withheld: Vec::new(),
            envelope: Default::default(),
            launcher: Vec::new(),
        }));
        let handling = Handling::AtLeastOnce(Arc::clone(&command) as _);
        rounds.add(stage.drain(round, handling, settings(32, 1)).await?, limit);
        command.close().await;
    }
    let (value, limit) = rounds.middle();
    Ok(Some(Row::new("command-echo", value.round(), "changes/s", limit.round(), 0.7)))
}

fn bare_pipe(stage: &Stage) -> anyhow::Result<f64> {
    let mut lines = File::open(stage.lines())?;
    let began = clock::now();
    let mut child =
        Process::new(ECHO[0]).args(&ECHO[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (mut stdin, stdout) = (stdin.context("its input")?, stdout.context("its output")?);
    let writer = std::thread::spawn(move || std::io::copy(&mut lines, &mut stdin));
    let (mut answers, mut buffer) = (0, vec![0; 64 * 1024]);
    let mut stdout = BufReader::new(stdout);
    loop {
        match stdout.read(&mut buffer)? {
            0 => break,
            read => answers += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    child.wait()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let changes = stage.backlog.changes();
    ensure!(answers == changes, "{answers} answers instead of {changes}");
    Ok(answers as f64 / seconds)
}
