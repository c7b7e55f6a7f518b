//! The file that all processes of a run append to. A line is one write, so its order is the order in which things happened.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::trouble::Trouble;

/// A change, as a handler and a writer both know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The object.
    pub key: u32,
    /// Its how-manieth change.
    pub revision: u64,
    /// What only the transaction that made it can have written: another one may have had this revision and not committed.
    pub token: String,
    /// The feed's id, and the one of the change before it; 0 where there is none.
    pub link: (u64, u64),
}

/// What somebody noted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Said {
    // A host's command.
    Command,
    Idle,
    Began(Seen),
    Handled(Seen),
    Failed(Seen),

    // A writer, before it commits.
    Writing(Seen),

    // Whoever carries the plan out.
    Started {
        name: String,
    },
    Stopping,
    Ended {
        how: String,
    },
    Killed,
    Paused,
    Resumed,
    CutOff,
    Connected,
    Hurt {
        what: String,
    },
    Poisoned {
        key: u32,
    },
    Healed,
    Calm,
    Cured,
    Over,
    /// Nobody ran for so many milliseconds: the machine was busy with something else.
    Stalled {
        millis: u64,
    },
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in microseconds of the time of day.
    pub at: u64,
    /// Which host it is about; 0 for none.
    pub machine: u32,
    /// The process that noted it.
    pub process: u32,
    /// What.
    pub said: Said,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { key, revision, token, link: (id, prev) } = self;
        write!(f, "{key} {revision} {token} {id} {prev}")
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Command => f.write_str("command"),
            Said::Idle => f.write_str("idle"),
            Said::Began(seen) => write!(f, "began {seen}"),
            Said::Handled(seen) => write!(f, "handled {seen}"),
            Said::Failed(seen) => write!(f, "failed {seen}"),
            Said::Writing(seen) => write!(f, "writing {seen}"),
            Said::Started { name } => write!(f, "started {name}"),
            Said::Stopping => f.write_str("stopping"),
            Said::Ended { how } => write!(f, "ended {}", one_word(how)),
            Said::Killed => f.write_str("killed"),
            Said::Paused => f.write_str("paused"),
            Said::Resumed => f.write_str("resumed"),
            Said::CutOff => f.write_str("cut-off"),
            Said::Connected => f.write_str("connected"),
            Said::Hurt { what } => write!(f, "hurt {}", one_word(what)),
            Said::Poisoned { key } => write!(f, "poisoned {key}"),
            Said::Healed => f.write_str("healed"),
            Said::Calm => f.write_str("calm"),
            Said::Cured => f.write_str("cured"),
            Said::Over => f.write_str("over"),
            Said::Stalled { millis } => write!(f, "stalled {millis}"),
        }
    }
}

fn one_word(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.at, self.machine, self.process, self.said)
    }
}

/// The words of a line.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, Trouble> {
        self.0.next().ok_or_else(|| Trouble::new("a word is missing"))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, Trouble> {
        let word = self.word()?;
        word.parse().map_err(|_| Trouble::new(format!("{word} is not a number")))
    }

    fn seen(&mut self) -> Result<Seen, Trouble> {
        Ok(Seen {
            key: self.number()?,
            revision: self.number()?,
            token: self.word()?.to_owned(),
            link: (self.number()?, self.number()?),
        })
    }
}

impl FromStr for Line {
    type Err = Trouble;

    fn from_str(text: &str) -> Result<Self, Trouble> {
        let mut words = Words(text.split_whitespace());
        let (at, machine, process) = (words.number()?, words.number()?, words.number()?);
        let said = match words.word()? {
            "command" => Said::Command,
            "idle" => Said::Idle,
            "began" => Said::Began(words.seen()?),
            "handled" => Said::Handled(words.seen()?),
            "failed" => Said::Failed(words.seen()?),
            "writing" => Said::Writing(words.seen()?),
            "started" => Said::Started { name: words.word()?.to_owned() },
            "stopping" => Said::Stopping,
            "ended" => Said::Ended { how: words.word()?.to_owned() },
            "killed" => Said::Killed,
            "paused" => Said::Paused,
            "resumed" => Said::Resumed,
            "cut-off" => Said::CutOff,
            "connected" => Said::Connected,
            "hurt" => Said::Hurt { what: words.word()?.to_owned() },
            "poisoned" => Said::Poisoned { key: words.number()? },
            "healed" => Said::Healed,
            "calm" => Said::Calm,
            "cured" => Said::Cured,
            "over" => Said::Over,
            "stalled" => Said::Stalled { millis: words.number()? },
            other => return Err(Trouble::new(format!("{other} is nothing that anybody notes"))),
        };
        Ok(Line { at, machine, process, said })
    }
}

/// The file. Clones append to the same one.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Journal { path: path.to_owned(), file })
    }

    /// The same file, for another thread.
    pub fn again(&self) -> io::Result<Self> {
        Journal::open(&self.path)
    }

    /// Notes something about a host, or about none (0).
    pub fn note(&self, machine: u32, said: Said) -> io::Result<()> {
        let at = u64::try_from(seriatim::clock::wall().as_microsecond()).unwrap_or(0);
        let line = Line { at, machine, process: std::process::id(), said };
        (&self.file).write_all(format!("{line}\n").as_bytes())
    }

    /// Everything that was noted so far.
    pub fn lines(&self) -> Result<Vec<Line>, Trouble> {
        let text = std::fs::read_to_string(&self.path)?;
        let read = |line: &str| {
            line.parse().map_err(|wrong| Trouble::new(format!("the journal's line {line:?}: {wrong}")))
        };
        text.lines().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen { key: 3, revision: 12, token: "t4".to_owned(), link: (40, 39) }
    }

    #[test]
    fn what_is_noted_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&folder.path().join("journal")).unwrap();
        let said = [
            Said::Command,
            Said::Began(seen()),
            Said::Handled(seen()),
            Said::Failed(seen()),
            Said::Writing(seen()),
            Said::Started { name: "a".to_owned() },
            Said::Ended { how: "exit_status:_0".to_owned() },
            Said::Hurt { what: "PostgreSQL_restarted".to_owned() },
            Said::Poisoned { key: 3 },
            Said::Stalled { millis: 120 },
            Said::CutOff,
            Said::Over,
        ];
        said.iter().for_each(|said| journal.note(2, said.clone()).unwrap());
        let read: Vec<Said> = journal.lines().unwrap().into_iter().map(|line| line.said).collect();
        assert_eq!(read, said);
    }
}
