//! Redis 7.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind { name: "Redis 7", install: "apt-get install -y redis-server" };

/// A Redis server without persistence.
pub struct Redis {
    port: u16,
    _server: Running,
    _folder: TempDir,
}

impl Redis {
    /// Starts one, and returns when it accepts connections.
    pub fn start() -> Result<Self, ServerError> {
        let folder = tempfile::tempdir().map_err(|cause| KIND.failed(cause))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|cause| KIND.not_started("redis-server", &cause))?;
        let server = Running(child).accepts(port, &KIND)?;
        Ok(Redis { port, _server: server, _folder: folder })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}
