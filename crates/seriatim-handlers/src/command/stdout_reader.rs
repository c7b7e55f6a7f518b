//! Hears what a child says, on a thread of its own.
//!
//! Most commands write each answer by itself, and each such write wakes whoever sleeps until there is something to read: that
//! costs the child as much as the answer itself, and takes the processor away from it. So while many answers are awaited, the
//! thread naps after each reading: nobody is woken, and the next reading finds many answers. When few are awaited it sleeps
//! until one comes, so that it is heard at once, and a child that says nothing costs nothing.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

/// As much is read from the pipe at once as it holds.
const READ: usize = 64 * 1024;

/// With fewer answers awaited, the child may be done before a nap ends.
const MANY: usize = 32;

/// How long a nap is for each awaited answer: a quick child needs longer, so it has always something to do.
const NAP: Duration = Duration::from_micros(1);

/// The longest nap.
const LONGEST_NAP: Duration = Duration::from_micros(200);

/// Hears what a child says, until it is dropped.
pub struct StdoutReader {
    pipe: File,
    heard: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    /// Dropping it ends the thread, even if somebody else keeps the child's output open.
    _listening: PipeWriter,
}

/// What the thread and its owner tell each other.
#[derive(Default)]
struct Shared {
    /// How many answers are awaited.
    awaited: AtomicUsize,
    /// Something was taken out of the pipe, or is just being taken out, and is not passed on yet.
    in_between: AtomicBool,
}

impl StdoutReader {
    /// Begins to listen to this pipe.
    pub fn open(pipe: OwnedFd) -> io::Result<Self> {
        let (dropped, listening) = io::pipe()?;
        // One reading is passed on while the next is made: a child that says more than is heard has to wait.
        let (pass_on, heard) = mpsc::channel(1);
        let (pipe, shared) = (File::from(pipe), Arc::new(Shared::default()));
        let listener = Listener { pipe: pipe.try_clone()?, dropped, pass_on, shared: Arc::clone(&shared) };
        thread::Builder::new().name("seriatim-answer".to_owned()).spawn(move || listener.listen())?;
        Ok(StdoutReader { pipe, heard, shared, _listening: listening })
    }

    /// The next that the child says; `None` when it has closed its output. Nothing is lost when this is not waited for to the end.
    pub async fn hear(&mut self) -> Option<Vec<u8>> {
        self.heard.recv().await
    }

    /// So many answers are awaited from now on.
    pub fn awaits(&self, answers: usize) {
        self.shared.awaited.store(answers, Ordering::Relaxed);
    }

    /// Whether the child has said nothing that was not heard yet, not even that it ended: the thread may be late.
    pub fn is_silent(&self) -> bool {
        // In the order in which words come along, so that none slips past.
        let mut pipe = [PollFd::new(&self.pipe, PollFlags::IN)];
        let has_more = poll(&mut pipe, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        !has_more && !self.shared.in_between.load(Ordering::SeqCst) && self.heard.is_empty()
    }
}

/// How long to nap after a reading that brought so many of the awaited answers.
fn nap(awaited: usize, brought: usize) -> Option<Duration> {
    let rest = awaited.saturating_sub(brought);
    (rest >= MANY).then(|| NAP.saturating_mul(u32::try_from(rest).unwrap_or(u32::MAX)).min(LONGEST_NAP))
}

/// What the thread has.
struct Listener {
    pipe: File,
    dropped: PipeReader,
    pass_on: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

impl Listener {
    fn listen(mut self) {
        let mut buffer = vec![0; READ];
        while self.has_something_to_hear() {
            self.shared.in_between.store(true, Ordering::SeqCst);
            let heard = match self.pipe.read(&mut buffer) {
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    self.shared.in_between.store(false, Ordering::SeqCst);
                    continue;
                }
                // An error is as good as the end.
                Err(_) => return,
            };
            // Asked before it is passed on: whoever hears it counts these answers as no longer awaited.
            let awaited = self.shared.awaited.load(Ordering::Relaxed);
            if heard.is_empty() || self.pass_on.blocking_send(heard.to_vec()).is_err() {
                return;
            }
            self.shared.in_between.store(false, Ordering::SeqCst);
            let brought = heard.iter().filter(|byte| **byte == b'\n').count();
            if let Some(nap) = nap(awaited, brought) {
                thread::sleep(nap);
            }
        }
    }

    /// Waits until there is something to read, if only the end; `false` when nobody wants to hear it any more.
    fn has_something_to_hear(&self) -> bool {
        let (said, dropped) = (PollFlags::IN, PollFlags::empty());
        let mut pipes = [PollFd::new(&self.pipe, said), PollFd::new(&self.dropped, dropped)];
        loop {
            match poll(&mut pipes, None) {
                Ok(_) => return pipes[1].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Longer than anything here takes on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    fn open() -> (PipeWriter, StdoutReader) {
        let (pipe, child) = io::pipe().unwrap();
        (child, StdoutReader::open(pipe.into()).unwrap())
    }

    async fn hear(ear: &mut StdoutReader) -> Option<Vec<u8>> {
        tokio::time::timeout(LONG, ear.hear()).await.expect("it hears nothing")
    }

    /// All it hears until there are so many bytes.
    async fn hear_all(ear: &mut StdoutReader, bytes: usize) -> Vec<u8> {
        let mut heard = Vec::new();
        while heard.len() < bytes {
            heard.extend(hear(ear).await.expect("it ended before it said all"));
        }
        heard
    }

    #[tokio::test]
    async fn everything_is_heard_in_order_and_then_the_end() {
        let (mut child, mut ear) = open();
        ear.awaits(1_000_000);
        let said: Vec<u8> = (0..100_000).flat_map(|line| format!("{line}\n").into_bytes()).collect();
        let all = said.clone();
        let talking = thread::spawn(move || child.write_all(&all));
        assert!(hear_all(&mut ear, said.len()).await == said, "it is not what was said");
        assert_eq!(hear(&mut ear).await, None);
        talking.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_part_of_an_answer_is_heard_too() {
        let (mut child, mut ear) = open();
        child.write_all(b"{\"ok\"").unwrap();
        assert_eq!(hear(&mut ear).await.unwrap(), b"{\"ok\"");
    }

    #[tokio::test]
    async fn a_child_that_is_not_listened_to_has_to_wait() {
        let (mut child, _ear) = open();
        rustix::io::ioctl_fionbio(&child, true).unwrap();
        let mut taken = 0;
        for _ in 0..10_000 {
            taken += child.write(&[b'\n'; 1024]).unwrap_or(0);
            thread::yield_now();
        }
        // What is in the pipe, what was passed on, and the reading after that.
        assert!((1024..=3 * READ).contains(&taken), "{taken} bytes were taken");
    }

    #[tokio::test]
    async fn whoever_keeps_the_output_open_keeps_no_thread() {
        let (child, ear) = open();
        drop(ear);
        let mut output = [PollFd::new(&child, PollFlags::empty())];
        let bound = Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        assert_eq!(poll(&mut output, Some(&bound)), Ok(1), "somebody still listens");
        assert!(output[0].revents().contains(PollFlags::ERR));
    }

    #[tokio::test]
    async fn nobody_is_called_silent_whose_words_are_on_their_way() {
        let (mut child, mut ear) = open();
        assert!(ear.is_silent());
        for _ in 0..1000 {
            child.write_all(b"\n").unwrap();
            // Wherever it is now: in the pipe, in the thread's hands, or passed on.
            while ear.heard.is_empty() {
                assert!(!ear.is_silent());
            }
            assert!(!ear.is_silent());
            hear(&mut ear).await.unwrap();
        }
        drop(child);
        assert!(!ear.is_silent());
    }

    #[test]
    fn it_naps_only_while_the_child_has_enough_to_do() {
        assert_eq!(nap(1, 1), None);
        assert_eq!(nap(40, 9), None);
        assert_eq!(nap(0, 5), None, "it says more than it was asked");
        assert_eq!(nap(110, 10), Some(Duration::from_micros(100)));
        assert_eq!(nap(usize::MAX, 1), Some(LONGEST_NAP));
    }
}
