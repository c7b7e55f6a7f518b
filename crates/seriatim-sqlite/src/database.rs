//! A SQLite file, and connections to it that each live on a thread of their own.

use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::{mpsc, oneshot};

use crate::error::SqliteError;

/// How long a statement waits for another process's lock before it gives up.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How many calls may wait for a connection: beyond that, callers wait before they are queued.
const QUEUE: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write a file that exists.
    Write,
    /// Read and write; make the file if there is none.
    Create,
    /// Read only.
    Read,
    /// Look at a file that exists, and leave it as it was. Whoever opens a file in WAL mode for reading only leaves
    /// files beside it, so this opens it for writing, writes nothing, and SQLite tidies up.
    Look,
}

/// A connection to a SQLite file on a thread of its own.
///
/// Calls run one after another. The thread ends, and the connection closes, when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Database {
    path: PathBuf,
    /// Which file it is, whatever its name stands for later.
    file: Option<(u64, u64)>,
    calls: mpsc::Sender<Call>,
}

type Call = Box<dyn FnOnce(&mut Connection) + Send>;

impl Database {
    /// Opens the file in WAL mode, with a busy timeout.
    pub async fn open(path: &Path, access: Access) -> Result<Self, SqliteError> {
        Database::open_with(path, access, |_| Ok(())).await
    }

    /// Opens the file, and prepares the connection (functions, temporary tables) before its first call.
    pub async fn open_with<P>(path: &Path, access: Access, prepare: P) -> Result<Self, SqliteError>
    where
        P: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        let (calls, mut queue) = mpsc::channel::<Call>(QUEUE);
        let (ready, opened) = oneshot::channel();
        let path = path.to_owned();
        let file = path.clone();
        std::thread::Builder::new()
            .name("seriatim-sqlite".to_owned())
            .spawn(move || {
                let connection = connect(&file, access).and_then(|connection| {
                    prepare(&connection).map_err(|cause| SqliteError::new(&file, "preparing", cause))?;
                    Ok(connection)
                });
                match connection {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(mut connection) => {
                        drop(ready.send(Ok(())));
                        while let Some(call) = queue.blocking_recv() {
                            call(&mut connection);
                        }
                    }
                }
            })
            .map_err(|cause| SqliteError::thread(&path, cause))?;
        opened.await.map_err(|_| SqliteError::gone(&path))??;
        let file = identity(&path);
        Ok(Database { path, file, calls })
    }

    /// Runs a closure on the connection and returns what it returns. `doing` says what for, in errors.
    pub async fn call<T, F>(&self, doing: &'static str, work: F) -> Result<T, SqliteError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        // Writing on into a file that has lost its name would lose everything, in silence.
        if identity(&self.path) != self.file {
            return Err(SqliteError::replaced(&self.path));
        }
        let (reply, answer) = oneshot::channel();
        let call: Call = Box::new(move |connection| drop(reply.send(work(connection))));
        self.calls.send(call).await.map_err(|_| SqliteError::gone(&self.path))?;
        let result = answer.await.map_err(|_| SqliteError::gone(&self.path))?;
        result.map_err(|cause| SqliteError::new(&self.path, doing, cause))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Which file a path stands for now.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Opens the file as it is, looks, and has closed it when it returns.
pub(crate) async fn look<T, F>(path: &Path, doing: &'static str, work: F) -> Result<T, SqliteError>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
{
    let (file, gone) = (path.to_owned(), SqliteError::gone(path));
    let looked = tokio::task::spawn_blocking(move || {
        let connection = connect(&file, Access::Look)?;
        work(&connection).map_err(|cause| SqliteError::new(&file, doing, cause))
    });
    looked.await.map_err(|_| gone)?
}

fn connect(path: &Path, access: Access) -> Result<Connection, SqliteError> {
    let doing = "opening";
    let flags = match access {
        Access::Write | Access::Look => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    if access == Access::Create {
        make_for_this_user_alone(path);
    }
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|cause| SqliteError::new(path, doing, cause))?;
    configure(&mut connection, access).map_err(|cause| SqliteError::new(path, doing, cause))?;
    Ok(connection)
}

/// Makes a file that is not there with the rights of this user alone: a store may hold rows of the source. SQLite gives its files beside
/// it the same. One that is there keeps its rights, and what goes wrong here, SQLite says better.
fn make_for_this_user_alone(path: &Path) {
    drop(std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
}

/// SQLite does not wait for its busy timeout when two connections switch a file at the same time.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let pause = Duration::from_millis(10);
    for _ in 0..BUSY_TIMEOUT.as_millis() / pause.as_millis() {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(busy) if busy.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(pause)
            }
            switched => return switched,
        }
    }
    connection.pragma_update(None, "journal_mode", "wal")
}

/// Waits a moment for another's lock; says no after [`BUSY_TIMEOUT`], about.
///
/// SQLite's own waiting takes longer each time, up to 100 ms. Against writers in a tight loop, which leave the lock free for some
/// microseconds now and then, that is as good as never: whoever tries often gets it.
fn wait_for_lock(tries: i32) -> bool {
    let (soon, later) = (Duration::from_micros(100), Duration::from_millis(1));
    let eager = 200;
    std::thread::sleep(if tries < eager { soon } else { later });
    u128::from(tries.unsigned_abs()) < BUSY_TIMEOUT.as_millis() + eager as u128
}

fn configure(connection: &mut Connection, access: Access) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_for_lock))?;
    connection.set_prepared_statement_cache_capacity(128);
    // The first read of the file: a corrupt or foreign one is found here.
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if matches!(access, Access::Write | Access::Create) {
        if !mode.eq_ignore_ascii_case("wal") {
            switch_to_wal(connection)?;
        }
        // In WAL mode this survives the death of the process; only a power failure can undo the last commits,
        // and then effect and checkpoint, or parked change and position, go together.
        connection.pragma_update(None, "synchronous", "normal")?;
    }
    Ok(())
}
