//! The standard error, where warnings that repeat are left out and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

use super::repeats::Repeats;

/// At most so many events are kept back: the last ones.
const HELD: usize = 100;

/// The events that are kept back, while they are.
static KEPT: Mutex<Option<VecDeque<Vec<u8>>>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<VecDeque<Vec<u8>>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on events are kept back.
pub fn hold() {
    kept().get_or_insert_default();
}

/// Writes the events that were kept back.
pub fn release() {
    for event in kept().take().into_iter().flatten() {
        // Without a standard error there is nobody left to tell.
        drop(io::stderr().write_all(&event));
    }
}

/// Writes an event, or keeps it back.
fn put(event: &[u8]) -> io::Result<()> {
    match &mut *kept() {
        Some(events) => {
            if events.len() == HELD {
                events.pop_front();
            }
            events.push_back(event.to_vec());
            Ok(())
        }
        None => io::stderr().write_all(event),
    }
}

/// Makes a writer for each event.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Repeats>>);

/// Writes one event.
pub enum Line {
    /// As it is.
    Plain,
    /// Unless it has been written often enough.
    Counted(Arc<Mutex<Repeats>>),
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line::Plain
    }

    fn make_writer_for(&'a self, about: &tracing::Metadata<'_>) -> Line {
        match *about.level() <= tracing::Level::WARN {
            true => Line::Counted(Arc::clone(&self.0)),
            false => self.make_writer(),
        }
    }
}

impl Write for Line {
    /// An event comes as one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::Plain => put(bytes)?,
            Line::Counted(repeats) => {
                let mut repeats = repeats.lock().unwrap_or_else(PoisonError::into_inner);
                let lines = repeats.lines(&String::from_utf8_lossy(bytes), seriatim::clock::now());
                put(lines.concat().as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
