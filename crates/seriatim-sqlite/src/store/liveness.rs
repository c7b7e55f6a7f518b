//! Telling a dead host from a slow one.
//!
//! Each host has a file beside the database and holds a lock on it. The system frees the lock when the process ends,
//! however it ends. Whoever can lock the file knows that the host is dead; a file that is missing proves nothing.
//!
//! Two who probe one dead host at the same moment may each find the other's lock, and one of them takes the host for
//! alive until it looks again. A live host is never taken for dead.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use seriatim::lease::Liveness;
use seriatim::name::SessionId;
use seriatim::store::StoreError;

/// The lock files of a store's hosts, and the locks that this process holds.
#[derive(Debug)]
pub(super) struct HostLocks {
    database: PathBuf,
    folder: PathBuf,
    held: Mutex<HashMap<SessionId, HostLock>>,
}

/// The proof that a host's process lives, as long as it is not dropped.
#[derive(Debug)]
pub(super) struct HostLock {
    _file: File,
}

/// The folder with the locks of the hosts of a store: one for all processes, by whatever link or relative path each came to the
/// file.
pub(crate) fn folder_of(database: &Path) -> PathBuf {
    let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
    let mut folder = database.into_os_string();
    folder.push("-hosts");
    folder.into()
}

impl HostLocks {
    /// The locks for the store in this file.
    pub(super) fn beside(database: &Path) -> Self {
        let folder = folder_of(database);
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        HostLocks { database, folder, held: Mutex::new(HashMap::new()) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes and locks the file of a new session.
    pub(super) fn lock(&self, session: &SessionId) -> io::Result<HostLock> {
        DirBuilder::new().recursive(true).mode(self.rights()).create(&self.folder)?;
        let file = File::create_new(self.file(session))?;
        match file.try_lock() {
            // A file system without locks: nobody else can lock the file either, so nobody will think us dead.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(HostLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(io::Error::other("somebody else has locked it")),
        }
    }

    /// Keeps the lock of a session that has joined.
    pub(super) fn keep(&self, session: &SessionId, lock: HostLock) {
        self.held().insert(session.clone(), lock);
    }

    /// Takes away the file of a session that is gone, and its lock if it is held here. One that is gone already does
    /// no harm, nor does one that stays: the next host that joins finds it.
    pub(super) fn remove(&self, session: &SessionId) {
        drop(std::fs::remove_file(self.file(session)));
        self.held().remove(session);
        // Succeeds for the last one only.
        drop(std::fs::remove_dir(&self.folder));
    }

    /// What the lock says about a session's process. Changes nothing.
    pub(super) fn liveness(&self, session: &SessionId) -> Liveness {
        // The lock is this process's own: it says nothing about whether anybody still runs that host.
        if self.held().contains_key(session) {
            return Liveness::Unknown;
        }
        match probe(&self.file(session)) {
            Ok(()) => Liveness::Dead,
            Err(TryLockError::WouldBlock) => Liveness::Alive,
            Err(TryLockError::Error(_)) => Liveness::Unknown,
        }
    }

    /// The sessions that have a file.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| SessionId::new(&name).ok()).collect()
    }

    /// The folder is for whoever the database is for: for this user alone, where the database was made here.
    fn rights(&self) -> u32 {
        let file = std::fs::metadata(&self.database).map_or(0o600, |file| file.mode());
        (file & 0o666) | ((file & 0o444) >> 2) | 0o700
    }

    fn file(&self, session: &SessionId) -> PathBuf {
        self.folder.join(session.as_str())
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, HostLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the file for an instant; the lock goes with the handle.
fn probe(file: &Path) -> Result<(), TryLockError> {
    OpenOptions::new().write(true).open(file).map_err(TryLockError::Error)?.try_lock()
}

pub(super) fn cannot_lock(folder: &Path, cause: &io::Error) -> StoreError {
    StoreError::needs_attention(
        format!("making a host's lock file in {}: {cause}", folder.display()),
        "make the store's folder writable for this user",
    )
}
