//! PostgreSQL 15.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{Kind, ServerError, free_port};

const KIND: Kind = Kind { name: "PostgreSQL 15", install: "apt-get install -y postgresql" };

/// Where Debian puts the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// What tests need, and no more safety than they need. `synchronous_commit` stays on: without it, logical decoding lags.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "wal_level=logical",
    "max_replication_slots=20",
    "max_wal_senders=20",
    "fsync=off",
    "full_page_writes=off",
];

/// A PostgreSQL cluster of its own.
pub struct Postgres {
    port: u16,
    folder: TempDir,
}

impl Postgres {
    /// Makes a cluster, starts it, and returns when it accepts connections.
    pub fn start() -> Result<Self, ServerError> {
        KIND.needs(&Path::new(PROGRAMS).join("initdb"))?;
        let folder = tempfile::tempdir().map_err(|cause| KIND.failed(cause))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let postgres = Postgres { port, folder };
        if postgres.is_roots() {
            KIND.run(Command::new("chown").arg("postgres").arg(postgres.folder.path()))?;
        }
        let init = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"];
        KIND.run(postgres.program("initdb").args(init))?;
        let log = postgres.folder.path().join("log");
        KIND.run(
            postgres
                .program("pg_ctl")
                .args(["-w", "-s", "-l"])
                .arg(log)
                .arg("-o")
                .arg(postgres.options())
                .arg("start"),
        )?;
        Ok(postgres)
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn options(&self) -> String {
        let settings: String = SETTINGS.iter().map(|setting| format!(" -c {setting}")).collect();
        format!("-p {} -k {}{settings}", self.port, self.folder.path().display())
    }

    /// A program of PostgreSQL on this cluster, under a user that may run it: root may not.
    fn program(&self, name: &str) -> Command {
        let program = Path::new(PROGRAMS).join(name);
        let mut command = if self.is_roots() {
            let mut command = Command::new("runuser");
            command.args([OsStr::new("-u"), OsStr::new("postgres"), OsStr::new("--"), program.as_os_str()]);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path()).arg("-D").arg(self.folder.path().join("data"));
        command
    }

    fn is_roots(&self) -> bool {
        std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.program("pg_ctl").args(["-s", "-m", "immediate", "stop"]).output());
    }
}
