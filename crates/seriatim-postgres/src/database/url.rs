//! From a URL to what a connection needs.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::schema::Schema;
use super::shares::LEAST;
use super::{CONNECT_TIMEOUT, tls::Trust};
use crate::error::PostgresError;

/// Where a database is, and how to get there.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) trust: Trust,
    pub(super) schema: Schema,
    /// For errors: without the password.
    pub(super) name: String,
    /// The most connections, if that is said.
    pub(super) connections: Option<usize>,
}

/// What a URL's query says that the driver does not know.
#[derive(Default)]
struct Ours {
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
    schema: Schema,
    connections: Option<usize>,
}

impl Address {
    /// Whether connections to one are as good as connections to the other.
    pub(super) fn is_same(&self, other: &Address) -> bool {
        self.config == other.config && self.trust == other.trust && self.schema == other.schema
    }

    pub(super) fn parse(url: &str) -> Result<Self, PostgresError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(PostgresError::url("it does not begin with postgres://"));
        }
        let (ours, url) = split(url)?;
        // The driver's message names the offending key and never a value.
        let mut config: Config =
            url.parse().map_err(|cause: tokio_postgres::Error| PostgresError::url(&said(&cause)))?;
        let (ssl, trust) = trust(&ours)?;
        config.ssl_mode(ssl);
        with_defaults(&mut config);
        let name = name(&config);
        Ok(Address { config, trust, schema: ours.schema, name, connections: ours.connections })
    }
}

fn said(cause: &tokio_postgres::Error) -> String {
    std::error::Error::source(cause).map_or_else(|| cause.to_string(), ToString::to_string)
}

/// Takes out of the query what only Seriatim understands.
fn split(url: &str) -> Result<(Ours, String), PostgresError> {
    let mut ours = Ours::default();
    let Some((place, query)) = url.split_once('?') else { return Ok((ours, url.to_owned())) };
    let mut others = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value);
        match key {
            "sslmode" => ours.sslmode = Some(value),
            "sslrootcert" if value != "system" => ours.sslrootcert = Some(PathBuf::from(value)),
            "sslrootcert" => {}
            "seriatim_schema" => {
                ours.schema = Schema::new(&value).ok_or_else(|| {
                    let rule =
                        "seriatim_schema is lower-case letters, digits and underscores, at most 40 of them";
                    PostgresError::url(rule)
                })?;
            }
            "seriatim_connections" => {
                let rule =
                    || PostgresError::url(&format!("seriatim_connections is a number, {LEAST} or more"));
                let number = value.parse().ok().filter(|number| *number >= LEAST);
                ours.connections = Some(number.ok_or_else(rule)?);
            }
            _ => others.push(pair),
        }
    }
    let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((ours, format!("{place}{rest}")))
}

/// The text behind percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// PostgreSQL's own meaning of `sslmode`: `require` verifies where a root certificate is given.
fn trust(ours: &Ours) -> Result<(SslMode, Trust), PostgresError> {
    let roots = || ours.sslrootcert.clone();
    Ok(match (ours.sslmode.as_deref(), &ours.sslrootcert) {
        (Some("disable"), _) => (SslMode::Disable, Trust::Anybody),
        (None | Some("prefer" | "allow"), _) => (SslMode::Prefer, Trust::Anybody),
        (Some("require"), None) => (SslMode::Require, Trust::Anybody),
        (Some("require" | "verify-ca"), _) => (SslMode::Require, Trust::SignedBy(roots())),
        (Some("verify-full"), _) => (SslMode::Require, Trust::NamedAndSignedBy(roots())),
        (Some(_), _) => {
            let modes = "sslmode is one of disable, prefer, require, verify-ca, verify-full";
            return Err(PostgresError::url(modes));
        }
    })
}

/// What is not said in the URL. A connection that is cut without a word is noticed within half a minute.
fn with_defaults(config: &mut Config) {
    if config.get_application_name().is_none() {
        config.application_name("seriatim");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host("localhost");
    }
    if config.get_user().is_none()
        && let Ok(user) = std::env::var("USER")
    {
        config.user(user);
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    config.keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5));
    config.keepalives_retries(3);
    config.tcp_user_timeout(Duration::from_secs(25));
}

fn name(config: &Config) -> String {
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| match host {
        Host::Tcp(host) => format!("{host}:{}", port(index)),
        Host::Unix(folder) => folder.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    format!("database {database} on {}", hosts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url).map_err(|error| error.to_string()).unwrap()
    }

    fn refused(url: &str) -> String {
        Address::parse(url).err().unwrap().to_string()
    }

    #[test]
    fn a_name_has_no_password() {
        let address = parse("postgres://ada:secret@db.example:6432/shop?connect_timeout=3");
        assert_eq!(address.name, "database shop on db.example:6432");
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(parse("postgres:///shop").name, "database shop on localhost:5432");
        let two = parse("postgresql://ada:secret@one:1,two:2/shop?target_session_attrs=read-write");
        assert_eq!(two.name, "database shop on one:1, two:2");
    }

    #[test]
    fn errors_say_what_is_wrong_and_no_password() {
        for url in [
            "mysql://ada:secret@db/shop",
            "postgres://ada:secret@db:port/shop",
            "postgres://ada:secret@db/shop?colour=blue",
            "postgres://ada:secret@db/shop?sslmode=perhaps",
            "postgres://ada:secret@db/shop?seriatim_schema=a.b",
        ] {
            assert!(!refused(url).contains("secret"), "{}", refused(url));
        }
        assert!(refused("postgres://db/shop?colour=blue").contains("colour"));
        assert!(refused("postgres://db/shop?sslmode=perhaps").contains("verify-full"));
    }

    #[test]
    fn the_schema_is_ours_to_read() {
        let address = parse("postgres://db/shop?seriatim_schema=billing&application_name=x%20y");
        assert_eq!(address.schema.as_str(), "billing");
        assert_eq!(address.config.get_application_name(), Some("x y"));
        assert_eq!(parse("postgres://db/shop").schema, Schema::default());
    }

    #[test]
    fn who_is_trusted_is_as_postgresqls_own_clients_have_it() {
        let roots = Some(PathBuf::from("/etc/root certs.pem"));
        for (query, expected) in [
            ("", (SslMode::Prefer, Trust::Anybody)),
            ("?sslmode=disable", (SslMode::Disable, Trust::Anybody)),
            ("?sslmode=require", (SslMode::Require, Trust::Anybody)),
            (
                "?sslmode=require&sslrootcert=/etc/root%20certs.pem",
                (SslMode::Require, Trust::SignedBy(roots.clone())),
            ),
            ("?sslmode=verify-ca", (SslMode::Require, Trust::SignedBy(None))),
            ("?sslmode=verify-full&sslrootcert=system", (SslMode::Require, Trust::NamedAndSignedBy(None))),
        ] {
            let address = parse(&format!("postgres://db/shop{query}"));
            assert_eq!((address.config.get_ssl_mode(), address.trust), expected, "{query}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_url_is_an_address_or_a_sentence_without_its_password(
            url in r"\PC{0,40}|postgres(ql)?://[a-z%:]{0,6}@?[a-z0-9.:,%\[\]]{0,12}/?[a-z%]{0,6}(\?[a-z_=%&0-9]{0,30})?"
        ) {
            if let Err(error) = Address::parse(&url) {
                prop_assert!(!error.to_string().is_empty());
            }
            if let Err(error) = Address::parse(&format!("postgres://u:hunter2@{url}")) {
                prop_assert!(!error.to_string().contains("hunter2"), "{}", error);
            }
        }
    }
}
