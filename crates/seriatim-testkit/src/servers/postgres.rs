//! PostgreSQL: Debian's 15, or whatever version `SERIATIM_POSTGRES` names the programs' folder of.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::{Kind, ServerError, free_port};

const KIND: Kind = Kind { name: "PostgreSQL 15", install: "apt-get install -y postgresql" };

/// Where Debian puts the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

fn programs() -> PathBuf {
    std::env::var_os("SERIATIM_POSTGRES").map_or_else(|| PathBuf::from(PROGRAMS), PathBuf::from)
}

/// What tests need, and no more safety than they need. `synchronous_commit` stays on: without it, logical decoding lags.
const SETTINGS: [&str; 8] = [
    "listen_addresses=127.0.0.1",
    "wal_level=logical",
    "max_replication_slots=200",
    "max_wal_senders=60",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=400",
    "max_prepared_transactions=20",
];

/// A PostgreSQL cluster of its own.
pub struct Postgres {
    port: u16,
    folder: TempDir,
}

impl Postgres {
    /// A cluster that all tests of this process share; each takes a database of its own in it ([`Postgres::database`]).
    ///
    /// Nobody drops it, so a child process waits for this one to end, however it ends, and stops the cluster then.
    ///
    /// # Panics
    /// When it cannot be started: the tests cannot go on.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<(Postgres, ChildStdin)> = OnceLock::new();
        let (postgres, _) = SHARED.get_or_init(|| {
            let postgres = Postgres::start().unwrap_or_else(|error| panic!("{error}"));
            let watchdog = postgres.stop_when_this_process_ends().unwrap_or_else(|error| panic!("{error}"));
            (postgres, watchdog)
        });
        postgres
    }

    /// Makes a cluster, starts it, and returns when it accepts connections.
    pub fn start() -> Result<Self, ServerError> {
        KIND.needs(&programs().join("initdb"))?;
        let folder = tempfile::tempdir().map_err(|cause| KIND.failed(cause))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let postgres = Postgres { port, folder };
        if postgres.is_roots() {
            KIND.run(Command::new("chown").arg("postgres").arg(postgres.folder.path()))?;
        }
        let init = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"];
        KIND.run(postgres.program("initdb").args(init))?;
        postgres.start_again()?;
        Ok(postgres)
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where this database of it is.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder that its files are in, to put certificates or settings there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes an empty database with a name of its own, and returns the name.
    pub fn database(&self) -> Result<String, ServerError> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let port = self.port.to_string();
        // Packages of the server alone have no clients; any version's will do.
        let beside = programs().join("createdb");
        let mut command = Command::new(if beside.exists() { beside } else { PathBuf::from("createdb") });
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-T", "template0", "-p", &port, &name]);
        KIND.run(&mut command)?;
        Ok(name)
    }

    /// Starts the cluster after [`Postgres::stop`], on the same port.
    pub fn start_again(&self) -> Result<(), ServerError> {
        let log = self.folder.path().join("log");
        let mut start = self.program("pg_ctl");
        KIND.run(start.args(["-w", "-s", "-l"]).arg(log).arg("-o").arg(self.options()).arg("start"))
    }

    /// Stops the cluster at once, as a crash would: every connection breaks.
    pub fn stop(&self) -> Result<(), ServerError> {
        KIND.run(self.program("pg_ctl").args(["-w", "-s", "-m", "immediate", "stop"]))
    }

    /// Stops the cluster and starts it again.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.stop()?;
        self.start_again()
    }

    /// A child that waits until the pipe to it closes, which the system does for a process that ends, and tidies up.
    pub(crate) fn stop_when_this_process_ends(&self) -> Result<ChildStdin, ServerError> {
        let stop = self.program("pg_ctl");
        let script = r#"cat; "$@" -s -m immediate stop; rm -rf "$0""#;
        let mut watchdog = Command::new("sh");
        watchdog.arg("-c").arg(script).arg(self.folder.path()).arg(stop.get_program()).args(stop.get_args());
        // In a group of its own, so that an interrupt from the keyboard does not end it too early.
        let watchdog = watchdog
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let watchdog = watchdog.map_err(|cause| KIND.not_started("sh", &cause))?;
        Ok(watchdog.stdin.expect("it was asked for"))
    }

    fn options(&self) -> String {
        let settings: String = SETTINGS.iter().map(|setting| format!(" -c {setting}")).collect();
        format!("-p {} -k {}{settings}", self.port, self.folder.path().display())
    }

    /// A program of PostgreSQL on this cluster, under a user that may run it: root may not.
    fn program(&self, name: &str) -> Command {
        let program = programs().join(name);
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
