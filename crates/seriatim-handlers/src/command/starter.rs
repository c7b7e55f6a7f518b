//! Starts children from one thread that lives as long as this process.
//!
//! A child that asks the system to be killed with its parent (see [`launch`](super::launch)) means the *thread* that started it:
//! that is how Linux has it. The threads of a runtime come and go while the process lives, and a child must not die with one.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel, sync_channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

type Job = Box<dyn FnOnce() + Send>;

/// Where the thread gets its work; `None` where no thread could be had. It never ends: the sender lives as long as the process.
static STARTER: LazyLock<Option<Sender<Job>>> = LazyLock::new(|| {
    let (jobs, work) = channel::<Job>();
    let run = move || {
        for job in work {
            // Its end would be the end of all children.
            drop(std::panic::catch_unwind(AssertUnwindSafe(job)));
        }
    };
    std::thread::Builder::new().name("seriatim-starter".to_owned()).spawn(run).ok().map(|_| jobs)
});

/// Starts a command from that thread.
pub(super) fn start(mut command: Command) -> io::Result<Child> {
    let starter = STARTER.as_ref().ok_or_else(|| io::Error::other("no thread could be started"))?;
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (answer, answered) = sync_channel(1);
    let job: Job = Box::new(move || {
        let _inside = runtime.enter();
        drop(answer.send(command.spawn()));
    });
    starter.send(job).map_err(|_| ended())?;
    answered.recv().map_err(|_| ended())?
}

fn ended() -> io::Error {
    io::Error::other("the thread that starts commands has ended")
}
