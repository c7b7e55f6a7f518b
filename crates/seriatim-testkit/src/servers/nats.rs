//! NATS with JetStream.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind { name: "NATS", install: "apt-get install -y nats-server" };

/// A NATS server with JetStream that syncs to disk before it acknowledges, where it can be told to (not 2.9).
///
/// It is the one in the PATH or in Debian's place, unless `SERIATIM_NATS_SERVER` names another.
pub struct Nats {
    port: u16,
    server: Running,
    folder: TempDir,
}

impl Nats {
    /// Starts one, and returns when it accepts connections.
    pub fn start() -> Result<Self, ServerError> {
        let failed = |cause: std::io::Error| KIND.failed(cause);
        let (folder, port) = (tempfile::tempdir().map_err(failed)?, free_port().map_err(failed)?);
        let store = folder.path().join("store");
        let sync = if knows_sync_interval() { ", sync_interval: always" } else { "" };
        let config = format!("jetstream {{ store_dir: {store:?}{sync} }}\nmax_payload: 262144\n");
        std::fs::write(folder.path().join("nats.conf"), config).map_err(failed)?;
        let server = Running(spawn(port, folder.path())?).accepts(port, &KIND)?;
        Ok(Nats { port, server, folder })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server and starts another one on its port, with what it had on disk.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        drop(self.server.0.kill());
        drop(self.server.0.wait());
        self.server = Running(spawn(self.port, self.folder.path())?).accepts(self.port, &KIND)?;
        Ok(())
    }
}

fn program() -> String {
    std::env::var("SERIATIM_NATS_SERVER").unwrap_or_else(|_| {
        let debian = "/usr/sbin/nats-server";
        if Path::new(debian).exists() { debian.to_owned() } else { "nats-server".to_owned() }
    })
}

/// Version 2.9 has no such setting. A process that is killed loses nothing there either: its writes are the system's.
fn knows_sync_interval() -> bool {
    let told = Command::new(program()).arg("--version").output();
    told.is_ok_and(|told| !String::from_utf8_lossy(&told.stdout).contains("v2.9."))
}

fn spawn(port: u16, folder: &Path) -> Result<Child, ServerError> {
    let program = program();
    Command::new(&program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-c"])
        .arg(folder.join("nats.conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|cause| KIND.not_started(&program, &cause))
}
