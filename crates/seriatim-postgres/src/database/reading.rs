//! A thread on which rows are taken in: the connections that bring them and whoever takes them.
//!
//! Rows come in small pieces, many thousand a second. On a thread of their own, a piece is handed on without waking anybody: between
//! the threads of a runtime each of them costs a system call or two, and those were a third of the time that reading took.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread. It ends, with all that still runs on it, when this is dropped.
pub(super) struct Reading {
    thread: Handle,
    _ends_when_dropped: oneshot::Sender<()>,
}

impl Reading {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (_ends_when_dropped, end) = oneshot::channel::<()>();
        let thread = runtime.handle().clone();
        std::thread::Builder::new().name("seriatim-postgres".to_owned()).spawn(move || {
            // Nobody sends anything: the other side is dropped.
            drop(runtime.block_on(end));
        })?;
        Ok(Reading { thread, _ends_when_dropped })
    }

    /// Does the work on the thread. If nobody waits for it any more, it ends where it is.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let mut task = AbortOnDrop(self.thread.spawn(work));
        (&mut task.0).await.map_err(io::Error::other)
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
