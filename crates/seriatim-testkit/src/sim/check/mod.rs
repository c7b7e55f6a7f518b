//! The guarantees, judged from a history alone. Nothing here knows how the library works.
//!
//! | checker | guarantee |
//! |---|---|
//! | `loss` | G1: nothing is passed that is not handled or kept, and in the end all is handled |
//! | `order` | G2: an object's changes one at a time, in the order of their commits |
//! | `once` | G3: an effect in a transaction once; one completion for each signal |
//! | `again` | G3: what was handled does not come again under the next owner unless something went wrong |
//! | `owner` | G4: nobody writes under an old epoch; G5: nobody is replaced before the expiry, whatever clocks show |
//! | `stall` | G6: what fails holds up itself alone |
//! | `queue` | G1-G4 for queues and gates |
//! | `windows` | G1 for windows |

mod again;
mod loss;
mod once;
mod order;
mod owner;
mod places;
mod queue;
mod stall;
mod windows;

use std::fmt;

pub use once::LIMIT;
pub use owner::EXPIRE;

use super::history::Entry;
use super::scheduler::Machine;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The guarantee that is broken.
    pub guarantee: &'static str,
    /// How.
    pub what: String,
    /// After how many entries of the history it was so.
    pub at: usize,
}

impl Violation {
    /// A task that panicked.
    pub fn panicked(machine: Machine, history: &[Entry]) -> Self {
        let what = format!("a task on m{} panicked", machine.0);
        Violation { guarantee: "G6 No stall", what, at: history.len() }
    }

    /// A run that does not come to its end.
    pub fn endless(history: &[Entry]) -> Self {
        let what = "the run does not come to its end".to_owned();
        Violation { guarantee: "G6 No stall", what, at: history.len() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (entry {})", self.guarantee, self.what, self.at)
    }
}

/// One guarantee, as a machine that reads a history.
pub trait Checker {
    /// The guarantee.
    fn guarantee(&self) -> &'static str;

    /// Takes in what happened, and says what is wrong with it.
    fn see(&mut self, entry: &Entry) -> Result<(), String>;
}

/// All of them.
pub fn checkers() -> Vec<Box<dyn Checker>> {
    vec![
        Box::<loss::Loss>::default(),
        Box::<order::Order>::default(),
        Box::<once::Effects>::default(),
        Box::<once::Signals>::default(),
        Box::<again::Again>::default(),
        Box::<owner::Fencing>::default(),
        Box::<owner::Expiry>::default(),
        Box::<stall::Stall>::default(),
        Box::<queue::Queues>::default(),
        Box::<windows::Windows>::default(),
    ]
}

/// The first thing that is wrong with a history.
pub fn all(history: &[Entry]) -> Option<Violation> {
    let mut checkers = checkers();
    for (number, entry) in history.iter().enumerate() {
        for checker in &mut checkers {
            if let Err(what) = checker.see(entry) {
                return Some(Violation { guarantee: checker.guarantee(), what, at: number + 1 });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
