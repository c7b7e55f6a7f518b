//! G3: at least once does not mean as often as one likes.

use std::collections::BTreeSet;

use super::Checker;
use crate::sim::history::{Entry, What};

/// What was handled when all hosts ended in order does not come again when the next one starts.
#[derive(Default)]
pub struct Again {
    handled: BTreeSet<u64>,
    over: bool,
}

impl Checker for Again {
    fn guarantee(&self) -> &'static str {
        "G3 Once"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Over => self.over = true,
            What::Handled { change, .. } => {
                let again = !self.handled.insert(*change);
                if again && self.over {
                    return Err(format!("all was handled and every host had ended, and {change} came again"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
