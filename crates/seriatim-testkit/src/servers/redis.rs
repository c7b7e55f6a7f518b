//! Redis 7.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{Kind, Running, ServerError, free_port};

const KIND: Kind = Kind { name: "Redis 7", install: "apt-get install -y redis-server" };

/// A Redis server.
pub struct Redis {
    port: u16,
    server: Running,
    folder: TempDir,
    settings: &'static [&'static str],
}

/// One of several that share the slots.
const CLUSTER: [&str; 6] =
    ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"];

/// Every write is on the disk before it is answered.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

impl Redis {
    /// Starts one without persistence, and returns when it accepts connections.
    pub fn start() -> Result<Self, ServerError> {
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        Redis::start_with(port, &[])
    }

    /// Starts one that keeps what it acknowledged.
    pub fn start_durable() -> Result<Self, ServerError> {
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        Redis::start_with(port, &DURABLE)
    }

    /// Starts one with what another one has saved: its RDB file.
    pub fn start_from(saved: &Path) -> Result<Self, ServerError> {
        let folder = tempfile::tempdir().map_err(|cause| KIND.failed(cause))?;
        std::fs::copy(saved, folder.path().join("dump.rdb")).map_err(|cause| KIND.failed(cause))?;
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        Redis::start_in(folder, port, &[])
    }

    fn start_with(port: u16, settings: &'static [&'static str]) -> Result<Self, ServerError> {
        Redis::start_in(tempfile::tempdir().map_err(|cause| KIND.failed(cause))?, port, settings)
    }

    fn start_in(folder: TempDir, port: u16, settings: &'static [&'static str]) -> Result<Self, ServerError> {
        let server = Running(spawn(port, folder.path(), settings)?).accepts(port, &KIND)?;
        Ok(Redis { port, server, folder, settings })
    }

    /// Starts a Cluster of three, and returns when all of its slots are served.
    pub fn start_cluster() -> Result<RedisCluster, ServerError> {
        let nodes = (0..3).map(|_| start_node()).collect::<Result<Vec<_>, _>>()?;
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]);
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        KIND.run(create.args(addresses).args(["--cluster-replicas", "0", "--cluster-yes"]))?;
        let cluster = RedisCluster { nodes };
        cluster.is_ready()?;
        Ok(cluster)
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server and starts another one on its port: unless it is durable, everything in it is gone.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        drop(self.server.0.kill());
        drop(self.server.0.wait());
        let next = spawn(self.port, self.folder.path(), self.settings)?;
        self.server = Running(next).accepts(self.port, &KIND)?;
        Ok(())
    }
}

/// Three Redis servers that share the slots of a Cluster.
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Where one of them listens.
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }

    /// The nodes hear of each other one after another: each of them must say that all is well.
    fn is_ready(&self) -> Result<(), ServerError> {
        for node in &self.nodes {
            let asked = (0..500).any(|_| {
                let ready = node.says_cluster_is_ok();
                if !ready {
                    std::thread::sleep(Duration::from_millis(20));
                }
                ready
            });
            if !asked {
                return Err(KIND.failed("the Cluster was not ready within 10 s"));
            }
        }
        Ok(())
    }
}

impl Redis {
    fn says_cluster_is_ok(&self) -> bool {
        let asked =
            Command::new("redis-cli").args(["-p", &self.port.to_string(), "cluster", "info"]).output();
        asked.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains("cluster_state:ok"))
    }
}

fn start_node() -> Result<Redis, ServerError> {
    // The Cluster's own bus is 10000 ports further.
    let port = loop {
        let port = free_port().map_err(|cause| KIND.failed(cause))?;
        if port < 55_000 {
            break port;
        }
    };
    Redis::start_with(port, &CLUSTER)
}

fn spawn(port: u16, folder: &Path, more: &[&str]) -> Result<Child, ServerError> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder)
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|cause| KIND.not_started("redis-server", &cause))
}
