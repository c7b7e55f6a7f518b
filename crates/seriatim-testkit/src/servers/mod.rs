//! Throw-away servers for tests: each on a free port of the loopback interface, in a folder of its own, and stopped when
//! dropped. Nothing that runs already is used or touched.

mod dynamodb;
mod nats;
mod pgbouncer;
mod postgres;
mod proxy;
mod redis;
mod sqs;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

pub use dynamodb::DynamoDb;
pub use nats::Nats;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use redis::{Redis, RedisCluster};
pub use sqs::Sqs;

/// A server that could not be started.
#[derive(Debug)]
pub enum ServerError {
    /// It is not installed.
    Missing {
        /// The server.
        server: &'static str,
        /// What was looked for.
        program: String,
        /// The command that installs it.
        install: &'static str,
    },
    /// It did not start.
    Failed {
        /// The server.
        server: &'static str,
        /// What it said.
        said: String,
    },
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerError::Missing { server, program, install } => {
                write!(f, "{server} is not installed (there is no {program}); install it with: {install}")
            }
            ServerError::Failed { server, said } => write!(f, "{server} did not start: {said}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A port of the loopback interface that nobody uses just now.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// How a server is called in errors, and how it is installed.
struct Kind {
    name: &'static str,
    install: &'static str,
}

impl Kind {
    fn failed(&self, said: impl ToString) -> ServerError {
        ServerError::Failed { server: self.name, said: said.to_string() }
    }

    /// What an error of starting a program means.
    fn not_started(&self, program: &str, cause: &io::Error) -> ServerError {
        match cause.kind() {
            io::ErrorKind::NotFound => self.missing(program),
            _ => self.failed(format!("{program}: {cause}")),
        }
    }

    fn missing(&self, program: &str) -> ServerError {
        ServerError::Missing { server: self.name, program: program.to_owned(), install: self.install }
    }

    fn needs(&self, file: &Path) -> Result<(), ServerError> {
        if file.exists() { Ok(()) } else { Err(self.missing(&file.display().to_string())) }
    }

    /// Runs a program to its end.
    fn run(&self, command: &mut Command) -> Result<(), ServerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let Output { status, stderr, .. } =
            command.output().map_err(|cause| self.not_started(&program, &cause))?;
        if status.success() { Ok(()) } else { Err(self.failed(String::from_utf8_lossy(&stderr).trim())) }
    }
}

/// A child process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    /// Returns when the server accepts connections; an error if it ends before that or takes half a minute.
    fn accepts(mut self, port: u16, kind: &Kind) -> Result<Self, ServerError> {
        for _ in 0..1500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(self);
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(kind.failed(format!("it ended at once, {status}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(kind.failed("it did not listen within 30 s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on() {
        // Somebody else may take it in between, now and then.
        let listened = |_| TcpListener::bind(("127.0.0.1", free_port().unwrap())).is_ok();
        assert!((0..20).any(listened));
    }

    #[test]
    fn a_missing_server_says_how_to_install_it() {
        let kind = Kind { name: "Redis 7", install: "apt-get install -y redis-server" };
        let error = kind.run(&mut Command::new("/nowhere/redis-server")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Redis 7 is not installed (there is no /nowhere/redis-server); install it with: apt-get install -y redis-server"
        );
    }

    #[test]
    fn a_server_that_fails_says_why() {
        let kind = Kind { name: "PostgreSQL 15", install: "" };
        let error = kind.run(Command::new("sh").args(["-c", "echo no room >&2; exit 1"])).unwrap_err();
        assert_eq!(error.to_string(), "PostgreSQL 15 did not start: no room");
    }

    #[test]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        let kind = Kind { name: "Redis 7", install: "" };
        let child = Command::new("false").spawn().unwrap();
        let error = Running(child).accepts(free_port().unwrap(), &kind).err().unwrap();
        assert!(error.to_string().starts_with("Redis 7 did not start: it ended at once"), "{error}");
    }
}
