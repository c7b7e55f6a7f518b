//! The lines of the standard input.

use std::io::{self, BufRead};

use tokio::sync::mpsc::{Receiver, channel};

use crate::error::{Error, Result};

/// How many lines are read ahead.
const AHEAD: usize = 64;

/// The lines, read by a thread of their own: one that waits for input must not keep the program from ending.
pub fn lines() -> Receiver<Result<String>> {
    let (sender, receiver) = channel(AHEAD);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let line =
                line.map_err(|cause| Error::failed("the standard input cannot be read").caused_by(cause));
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
