//! `seriatim gate`: JSON lines through a gate, for consumers in any language.
//!
//! ```text
//!   standard input ──▶ gate ──▶ standard output: each event once, in the order of its object
//!                       │ ▲
//!                       ▼ │ early events, and how far each object is
//!                      store
//! ```
//!
//! A line counts as applied when it is written. A crash between the two writes the line again at the next start.

mod arguments;
mod input;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seriatim::clock;
use seriatim::name::{FeedName, ObjectName};
use seriatim::order::{EventId, Gate, GateError, GateState, JsonLines, Limits, LineError};

pub use arguments::Arguments;

use crate::config::{self, Environment};
use crate::error::{Error, Result};
use crate::{databases, output};

/// How often gaps are looked for at the most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs the command.
pub async fn execute(file: &Path, arguments: &Arguments) -> Result<()> {
    let store = config::load_store(file, &Environment::of_process())?;
    let name = FeedName::new(&arguments.name).map_err(|bad| Error::usage(bad.to_string()))?;
    if arguments.print {
        output::line(store.gate_script().await?.trim_end())?;
        return Ok(());
    }
    let state = databases::gate(&store, &name).await?;
    if arguments.init {
        output::line(format_args!("the gate {name} is there"))?;
        return Ok(());
    }
    let limits = Limits { held: arguments.hold, wait: arguments.wait };
    let gate = Gate::open(state, limits).await.map_err(|error| explain(error.into()))?;
    let gate = if arguments.states { gate.of_states() } else { gate };
    Filter { lines: JsonLines::new(gate), gaps: BTreeSet::new() }.run(arguments.wait).await
}

/// Lines on their way through a gate.
struct Filter {
    lines: JsonLines<Arc<dyn GateState>>,
    /// The gaps that were reported.
    gaps: BTreeSet<(ObjectName, EventId)>,
}

impl Filter {
    async fn run(mut self, wait: Duration) -> Result<()> {
        for left in self.lines.left_over().await.map_err(explain)? {
            self.let_through(left).await?;
        }
        let mut input = input::lines();
        let mut look = tokio::time::interval(wait.min(LOOK_EVERY));
        loop {
            tokio::select! {
                line = input.recv() => match line {
                    Some(line) => self.take(&line?).await?,
                    None => break,
                },
                _ = look.tick() => self.report_gaps(),
            }
        }
        self.say_what_is_held();
        Ok(())
    }

    async fn take(&mut self, line: &str) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        match self.lines.next(line).await.map_err(explain)? {
            Some(line) => self.let_through(line).await,
            None => Ok(()),
        }
    }

    /// Writes an event, and those that were held for it.
    async fn let_through(&mut self, first: String) -> Result<()> {
        let mut next = Some(first);
        while let Some(line) = next {
            write(&line)?;
            next = self.lines.applied(&line).await.map_err(explain)?;
        }
        Ok(())
    }

    fn report_gaps(&mut self) {
        for gap in self.lines.gate().gaps(clock::now()) {
            if self.gaps.insert((gap.object.clone(), gap.missing)) {
                tracing::warn!("{gap}; later events of {} are held until it comes", gap.object);
            }
        }
    }

    fn say_what_is_held(&mut self) {
        let held = self.lines.gate().held();
        if held > 0 {
            tracing::warn!("events held: {held}; each is written when the event before it has come");
        }
    }
}

/// Writes a line, so that its reader has it when this returns.
fn write(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

fn explain(error: LineError) -> Error {
    match error {
        LineError::Gate(GateError::Store(error)) => error.into(),
        LineError::Gate(error @ GateError::Overtaken { .. }) => Error::failed(error.to_string())
            .help("one process at a time may use a gate: give each consumer a gate of its own"),
        other => Error::failed(other.to_string()),
    }
}
