//! PgBouncer: a pooler of connections to PostgreSQL.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Kind, Postgres, Running, ServerError, free_port};

const KIND: Kind = Kind { name: "PgBouncer", install: "apt-get install -y pgbouncer" };

/// Where Debian puts it: not everybody has that folder among those that are searched.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A PgBouncer before a cluster.
pub struct PgBouncer {
    port: u16,
    _server: Running,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one with this `pool_mode` and these further settings, a line each, and returns when it accepts connections.
    pub fn before(postgres: &Postgres, pool_mode: &str, settings: &[&str]) -> Result<Self, ServerError> {
        let failed = |cause: std::io::Error| KIND.failed(cause);
        let folder = tempfile::tempdir().map_err(failed)?;
        let port = free_port().map_err(failed)?;
        let (users, config) = (folder.path().join("users.txt"), folder.path().join("pgbouncer.ini"));
        std::fs::write(&users, "\"postgres\" \"\"\n").map_err(failed)?;
        let said = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {pool_mode}\n{}\n",
            postgres.port(),
            users.display(),
            settings.join("\n"),
        );
        std::fs::write(&config, said).map_err(failed)?;
        let mut command = Command::new(PROGRAM);
        // It does not run as root, and must read its folder as whoever it becomes.
        if folder.path().metadata().map_err(failed)?.uid() == 0 {
            command.args(["-u", "postgres"]);
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).map_err(failed)?;
        }
        let command = command.arg("-q").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = command.map_err(|cause| KIND.not_started(PROGRAM, &cause))?;
        let server = Running(server).accepts(port, &KIND)?;
        Ok(PgBouncer { port, _server: server, _folder: folder })
    }

    /// The same database through it.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}
