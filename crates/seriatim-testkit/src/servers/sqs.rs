//! SQS as `moto` imitates it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind {
    name: "moto",
    install: "python3 -m venv target/servers/python && target/servers/python/bin/python -m pip install 'moto[server]==5.2.5'",
};

/// The account that it gives everybody.
const ACCOUNT: &str = "123456789012";

/// An imitation of SQS with its queues in memory: groups, deduplication and limits are checked as the service does.
pub struct Sqs {
    port: u16,
    server: Running,
}

impl Sqs {
    /// Starts one, and returns when it accepts connections. `SERIATIM_PYTHON` may name a Python that has it.
    pub fn start() -> Result<Self, ServerError> {
        KIND.needs(&python())?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let server = Running(spawn(port)?).accepts(port, &KIND)?;
        Ok(Sqs { port, server })
    }

    /// Whether it still runs.
    pub fn is_there(&mut self) -> bool {
        matches!(self.server.0.try_wait(), Ok(None))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The address of a queue, be it there or not.
    pub fn queue(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.endpoint())
    }
}

fn spawn(port: u16) -> Result<Child, ServerError> {
    Command::new(python())
        .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|cause| KIND.not_started("python", &cause))
}

fn python() -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::var_os("SERIATIM_PYTHON")
        .map_or_else(|| PathBuf::from(workspace).join("target/servers/python/bin/python"), PathBuf::from)
}
