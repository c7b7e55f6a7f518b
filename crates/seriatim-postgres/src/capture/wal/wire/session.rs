//! Making a replication connection: finding the host, TLS, and saying who we are.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::message::Malformed;
use super::{Answer, Bytestream, Wire, WireError};
use crate::database::Database;

/// How long all of it may take at one host.
const PATIENCE: Duration = Duration::from_secs(10);

/// Values are written in a form that any session reads back as the same values.
const SETTINGS: &str = "set datestyle = 'ISO, YMD'; set intervalstyle = 'iso_8601'; set timezone = 'UTC'; \
                        set bytea_output = 'hex'; set extra_float_digits = 3; set statement_timeout = 0; set lock_timeout = 0";

/// Connects to the first host that takes us in.
pub(super) async fn connect(database: &Database) -> Result<Wire, WireError> {
    let (config, tls) = database.address();
    let mut failed = WireError::Cannot("the URL names no host");
    for (index, host) in config.get_hosts().iter().enumerate() {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let made = tokio::time::timeout(PATIENCE, at(config, tls.clone(), host, port)).await;
        match made.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into())) {
            Ok(wire) => return Ok(wire),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn at(config: &Config, tls: MakeRustlsConnect, host: &Host, port: u16) -> Result<Wire, WireError> {
    let stream = match host {
        Host::Unix(folder) => {
            let socket = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?;
            Box::new(socket) as Box<dyn Bytestream>
        }
        Host::Tcp(name) => {
            let socket = TcpStream::connect((name.as_str(), port)).await?;
            socket.set_nodelay(true)?;
            secured(config, tls, name, socket).await?
        }
    };
    let mut wire = Wire::new(stream);
    introduce(&mut wire, config).await?;
    wire.ask(SETTINGS).await?;
    // With several hosts, one of them may be a standby: its slots are not ours.
    let standby = wire.ask("select pg_is_in_recovery()::text").await?;
    match standby.first().and_then(|row| row.first().cloned().flatten()).as_deref() {
        Some("true") => Err(WireError::Cannot("the server is a standby")),
        _ => Ok(wire),
    }
}

async fn secured(
    config: &Config,
    mut tls: MakeRustlsConnect,
    host: &str,
    mut socket: TcpStream,
) -> Result<Box<dyn Bytestream>, WireError> {
    if config.get_ssl_mode() == SslMode::Disable {
        return Ok(Box::new(socket));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).await?;
    match socket.read_u8().await? {
        b'S' => {
            let connector = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls, host);
            let connector = connector.map_err(std::io::Error::other)?;
            Ok(Box::new(connector.connect(socket).await.map_err(std::io::Error::other)?))
        }
        _ if config.get_ssl_mode() == SslMode::Prefer => Ok(Box::new(socket)),
        _ => Err(WireError::Cannot("the server does not speak TLS, and sslmode asks for it")),
    }
}

async fn introduce(wire: &mut Wire, config: &Config) -> Result<(), WireError> {
    let user = config.get_user().unwrap_or("postgres");
    let parameters = [
        ("user", user),
        ("database", config.get_dbname().unwrap_or(user)),
        ("replication", "database"),
        ("client_encoding", "UTF8"),
        ("application_name", config.get_application_name().unwrap_or("seriatim")),
    ];
    let mut bytes = BytesMut::new();
    frontend::startup_message(parameters, &mut bytes)?;
    wire.writer.send(&bytes).await?;
    let mut scram = None;
    loop {
        match wire.message().await? {
            (b'R', said) => prove(wire, config, user, said, &mut scram).await?,
            (b'E', said) => return Err(refused(&said)),
            (b'Z', _) => return Ok(()),
            _ => {}
        }
    }
}

/// Answers what the server asks about who we are.
async fn prove(
    wire: &mut Wire,
    config: &Config,
    user: &str,
    mut said: Bytes,
    scram: &mut Option<sasl::ScramSha256>,
) -> Result<(), WireError> {
    if said.len() < 4 {
        return Err(Malformed("it is cut off").into());
    }
    let password = || config.get_password().ok_or(WireError::Cannot("the server asks for a password"));
    let mut bytes = BytesMut::new();
    match said.get_u32() {
        0 => return Ok(()),
        3 => frontend::password_message(password()?, &mut bytes)?,
        5 => {
            let salt =
                said.get(..4).and_then(|salt| salt.try_into().ok()).ok_or(Malformed("it is cut off"))?;
            frontend::password_message(md5_hash(user.as_bytes(), password()?, salt).as_bytes(), &mut bytes)?;
        }
        10 => {
            let begun = sasl::ScramSha256::new(password()?, sasl::ChannelBinding::unsupported());
            frontend::sasl_initial_response(sasl::SCRAM_SHA_256, begun.message(), &mut bytes)?;
            *scram = Some(begun);
        }
        11 => {
            let scram = scram.as_mut().ok_or(Malformed("it comes out of turn"))?;
            scram.update(&said)?;
            frontend::sasl_response(scram.message(), &mut bytes)?;
        }
        12 => {
            scram.as_mut().ok_or(Malformed("it comes out of turn"))?.finish(&said)?;
            return Ok(());
        }
        _ => return Err(WireError::Cannot("the server asks for a kind of authentication that is not known")),
    }
    wire.writer.send(&bytes).await
}

/// A row of an answer.
pub(super) fn row(mut body: &[u8]) -> Result<Answer, WireError> {
    let short = || Malformed("it is cut off");
    let count = body.try_get_u16().map_err(|_| short())?;
    let mut value = || {
        let length = body.try_get_i32().map_err(|_| short())?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let (value, rest) = body.split_at_checked(length).ok_or_else(short)?;
        body = rest;
        Ok(Some(String::from_utf8_lossy(value).into_owned()))
    };
    (0..count).map(|_| value()).collect()
}

/// What the server says when it refuses.
pub(super) fn refused(body: &[u8]) -> WireError {
    let field = |kind: u8| {
        let fields = body.split(|byte| *byte == 0);
        let found = fields.filter_map(<[u8]>::split_first).find(|(first, _)| **first == kind);
        found.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    WireError::Server { code: field(b'C'), message: field(b'M') }
}
