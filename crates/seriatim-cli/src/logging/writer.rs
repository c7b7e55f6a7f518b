//! The standard error, where warnings that repeat are left out and counted.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

use super::repeats::Repeats;

/// Makes a writer for each event.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Repeats>>);

/// Writes one event.
pub enum Line {
    /// As it is.
    Plain(io::Stderr),
    /// Unless it has been written often enough.
    Counted(Arc<Mutex<Repeats>>),
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line::Plain(io::stderr())
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
            Line::Plain(stderr) => stderr.write(bytes),
            Line::Counted(repeats) => {
                let mut repeats = repeats.lock().unwrap_or_else(PoisonError::into_inner);
                let lines = repeats.lines(&String::from_utf8_lossy(bytes), seriatim::clock::now());
                io::stderr().write_all(lines.concat().as_bytes())?;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
