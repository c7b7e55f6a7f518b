//! Notes when the machine was busy with something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::journal::{Journal, Said};
use super::trouble::Trouble;

/// A gap of so many milliseconds between two looks at the clock means that nobody ran.
const STALL: u128 = 80;

/// Notes when nobody ran: then everybody stood still, though nobody was told to.
pub struct Metronome(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Metronome {
    /// Starts to look.
    pub fn start(journal: &Journal) -> Result<Self, Trouble> {
        let (stop, journal) = (Arc::new(AtomicBool::new(false)), journal.again()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut last = seriatim::clock::now();
            while !stopped.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(10));
                let (now, before) = (seriatim::clock::now(), last);
                last = now;
                let gap = (now - before).as_millis();
                if gap > STALL {
                    drop(journal.note(0, Said::Stalled { millis: u64::try_from(gap).unwrap_or(u64::MAX) }));
                }
            }
        });
        Ok(Metronome(stop, Some(thread)))
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
