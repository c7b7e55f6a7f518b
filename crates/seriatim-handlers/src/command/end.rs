//! Why a child ended, in words, and whose fault it is. Pure.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use seriatim::Failure;

/// So much of what a child said is repeated in a sentence.
const QUOTED: usize = 120;

/// Why the talk with a child is over.
#[derive(Debug)]
pub enum Why {
    /// Its standard output ended.
    Closed,
    /// It does not read any more.
    Deaf,
    /// It answered nothing for this long.
    Silent(Duration),
    /// It answered something that is no answer.
    Nonsense { said: String },
    /// It answered although nothing was unanswered.
    Unasked { said: String },
    /// It answered for a change whose turn it was not.
    AnotherId { id: u64 },
    /// It is not needed any more.
    NotNeeded,
}

impl Why {
    pub fn nonsense(line: &[u8]) -> Self {
        Why::Nonsense { said: shortened(line) }
    }

    pub fn unasked(line: &[u8]) -> Self {
        Why::Unasked { said: shortened(line) }
    }
}

fn shortened(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * QUOTED)]);
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// The command, as far as it is shown.
    pub command: String,
    pub why: Why,
    /// The change whose answer was next, and how many were unanswered.
    pub next: Option<u64>,
    pub unanswered: usize,
    /// How the process ended by itself; `None` when it had to be killed.
    pub status: Option<ExitStatus>,
    /// The last thing it wrote to its standard error.
    pub last_words: String,
    /// It had not read a byte.
    pub read_nothing: bool,
}

impl Ended {
    /// Whether it is known who is to blame: one change alone, or none at all.
    pub fn is_certain(&self) -> bool {
        self.unanswered == 1 || self.is_nobodys_fault()
    }

    /// A program that did not even look at what it got cannot have stumbled over it.
    fn is_nobodys_fault(&self) -> bool {
        self.read_nothing
    }

    /// The failure of a change that it had not answered.
    pub fn failure(&self) -> Failure {
        match self.is_nobodys_fault() {
            true => Failure::target(self.to_string()),
            false => Failure::change(self.to_string()).unanswered_at([0]),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command {} ", self.command)?;
        let change = self.next.map_or_else(|| "anything".to_owned(), |id| format!("change {id}"));
        match &self.why {
            Why::Closed | Why::Deaf => {
                match (&self.status, &self.why) {
                    (Some(status), _) => write!(f, "ended with {status}")?,
                    (None, Why::Deaf) => f.write_str("closed its standard input")?,
                    (None, _) => f.write_str("closed its standard output")?,
                }
                match self.read_nothing {
                    true => f.write_str(" before it read anything")?,
                    false if self.unanswered > 0 => write!(f, " before it answered {change}")?,
                    false => {}
                }
            }
            Why::Silent(timeout) if self.read_nothing => {
                write!(f, "read nothing within {timeout:?} and was killed")?
            }
            Why::Silent(timeout) => write!(f, "did not answer {change} within {timeout:?} and was killed")?,
            Why::Nonsense { said } => write!(
                f,
                "answered {said:?} to {change}, which is neither {{\"ok\":true}} nor {{\"error\":\"…\"}} \
                 (what is no answer belongs on its standard error)"
            )?,
            Why::Unasked { said } => write!(f, "answered {said:?} although nothing was unanswered")?,
            Why::AnotherId { id } => {
                write!(f, "answered for change {id} where the answer for {change} was next")?
            }
            Why::NotNeeded => f.write_str("was not needed any more")?,
        }
        match self.last_words.as_str() {
            "" => Ok(()),
            words => write!(f, "; its last words: {words}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use seriatim::handler::FailureKind;

    use super::*;

    fn ended(why: Why) -> Ended {
        Ended {
            command: "python3 handle.py".to_owned(),
            why,
            next: Some(17),
            unanswered: 3,
            status: None,
            last_words: String::new(),
            read_nothing: false,
        }
    }

    #[test]
    fn each_end_has_its_sentence() {
        let said = |why| ended(why).to_string();
        let silent = said(Why::Silent(Duration::from_secs(30)));
        assert_eq!(
            silent,
            "the command python3 handle.py did not answer change 17 within 30s and was killed"
        );
        assert!(said(Why::Closed).contains("closed its standard output before it answered change 17"));
        assert!(said(Why::nonsense(b"hello")).contains(r#"answered "hello" to change 17"#));
        assert!(said(Why::AnotherId { id: 9 }).contains("change 9 where the answer for change 17 was next"));
        let words = Ended { last_words: "KeyError: 'id'".to_owned(), ..ended(Why::Closed) };
        assert!(words.to_string().ends_with("; its last words: KeyError: 'id'"));
    }

    #[test]
    fn one_alone_is_to_blame_and_a_program_that_reads_nothing_blames_nobody() {
        assert!(!ended(Why::Closed).is_certain());
        let alone = Ended { unanswered: 1, ..ended(Why::Closed) };
        assert!(alone.is_certain());
        assert_eq!(alone.failure().kind, FailureKind::Change);
        for why in [Why::Closed, Why::Silent(Duration::from_secs(1)), Why::nonsense(b"welcome")] {
            let broken = Ended { read_nothing: true, ..ended(why) };
            assert!(broken.is_certain());
            assert_eq!(broken.failure().kind, FailureKind::Target);
        }
    }

    #[test]
    fn what_it_said_is_repeated_in_part() {
        let Why::Nonsense { said } = Why::nonsense("ü".repeat(10_000).as_bytes()) else { panic!() };
        assert_eq!(said.chars().count(), QUOTED + 1);
    }
}
