//! Which table, where, and by which right.

use std::fmt;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_http_client::tls;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use url::{Host, Url};

use crate::credentials::DefaultChain;

/// How often one request is sent at most, when it is throttled or fails on its way: paused for in between, longer each time.
const TRIES: u32 = 6;

/// An address that cannot be used, and why.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{what}; {remedy}")]
pub struct BadAddress {
    what: String,
    remedy: &'static str,
}

const FORM: &str =
    "write it as dynamodb://TABLE?region=REGION, with &endpoint=http://… for a server of your own";

/// By which right.
#[derive(Clone)]
enum Login {
    Given(Credentials),
    /// Whatever AWS's own tools would find.
    DefaultChain,
}

/// Which table, where, and by which right.
///
/// ```
/// use seriatim_dynamodb::Address;
///
/// let address = Address::parse("dynamodb://signals?endpoint=http://127.0.0.1:8000", |_| None)?;
/// assert_eq!(address.table(), "signals");
/// # Ok::<(), seriatim_dynamodb::BadAddress>(())
/// ```
#[derive(Clone)]
pub struct Address {
    table: String,
    region: String,
    endpoint: Option<String>,
    login: Login,
    is_on_this_machine: bool,
}

impl Address {
    /// Reads `dynamodb://[KEY:SECRET@]TABLE[?region=…&endpoint=…]`. What it does not say is taken from the environment:
    /// `AWS_REGION` or `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_DYNAMODB` or `AWS_ENDPOINT_URL`, and `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. Without those, credentials come from AWS's default chain, when they are
    /// needed: profiles, web identity, containers, instances. A server on this machine needs neither region nor credentials.
    pub fn parse(url: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, BadAddress> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let url = Url::parse(url).map_err(|cause| bad(format!("the address is no URL: {cause}"), FORM))?;
        if url.scheme() != "dynamodb" {
            return Err(bad(format!("{}: is not dynamodb:", url.scheme()), FORM));
        }
        let table = table(&url)?;
        let (mut region, mut endpoint) = (None, None);
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" => region = Some(value.into_owned()),
                "endpoint" => endpoint = Some(value.into_owned()),
                // What is no word may be the rest of a secret with a `?` in it.
                word if word.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte)) => {
                    return Err(bad(format!("the address has an unknown setting {word:?}"), FORM));
                }
                _ => return Err(bad("the address has an unknown setting", FORM)),
            }
        }
        let endpoint = endpoint
            .or_else(|| variable("AWS_ENDPOINT_URL_DYNAMODB"))
            .or_else(|| variable("AWS_ENDPOINT_URL"));
        let is_on_this_machine = endpoint.as_deref().map_or(Ok(false), is_loopback)?;
        let local = |value: &str| is_on_this_machine.then(|| value.to_owned());
        let region = region
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| local("us-east-1"))
            .ok_or_else(|| bad(format!("table {table} has no region"), "add ?region=… or set AWS_REGION"))?;
        let login = login(&url, &variable, is_on_this_machine);
        Ok(Address { table, region, endpoint, login, is_on_this_machine })
    }

    /// The same, with the environment of this process.
    pub fn from_url(url: &str) -> Result<Self, BadAddress> {
        Address::parse(url, |name| std::env::var(name).ok())
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Whether the server is on this machine, as DynamoDB Local is: there, tables cost nothing.
    pub fn is_on_this_machine(&self) -> bool {
        self.is_on_this_machine
    }

    /// A client for it. Throttled and failed requests are sent again, with pauses.
    pub fn client(&self) -> Client {
        let http = aws_smithy_http_client::Builder::new();
        let http = match self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http:")) {
            // Reading all of a system's certificates takes longer than a whole `once run`.
            true => http.build_http(),
            false => {
                http.tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring)).build_https()
            }
        };
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(3))
            .operation_attempt_timeout(Duration::from_secs(5))
            .operation_timeout(Duration::from_secs(20));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(Region::new(self.region.clone()))
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(timeouts.build());
        let config = match &self.login {
            Login::Given(credentials) => config.credentials_provider(credentials.clone()),
            Login::DefaultChain => config.credentials_provider(DefaultChain::new(&self.region)),
        };
        let config = match &self.endpoint {
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config,
        };
        Client::from_conf(config.build())
    }
}

/// An endpoint may be a gateway that wants to know who comes.
fn without_login(endpoint: &str) -> String {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}"),
        (None, Some((_, place))) => format!("***@{place}"),
        _ => endpoint.to_owned(),
    }
}

/// Without the credentials.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dynamodb://{}?region={}", self.table, self.region)?;
        self.endpoint.as_deref().map_or(Ok(()), |endpoint| write!(f, "&endpoint={}", without_login(endpoint)))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn bad(what: impl Into<String>, remedy: &'static str) -> BadAddress {
    BadAddress { what: what.into(), remedy }
}

fn table(url: &Url) -> Result<String, BadAddress> {
    let table = url.host_str().unwrap_or_default();
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (3..=255).contains(&table.len()) && table.bytes().all(good) && ["", "/"].contains(&url.path()) {
        return Ok(table.to_owned());
    }
    Err(bad(
        format!(
            "{table:?} is no table's name: it has 3 to 255 letters, digits, underscores, dots and hyphens"
        ),
        FORM,
    ))
}

fn login(url: &Url, variable: &impl Fn(&str) -> Option<String>, is_on_this_machine: bool) -> Login {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    if let (key, Some(secret)) = (url.username(), url.password()) {
        return Login::Given(Credentials::new(decoded(key), decoded(secret), None, None, "address"));
    }
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(key), Some(secret)) => {
            let token = variable("AWS_SESSION_TOKEN");
            Login::Given(Credentials::new(key, secret, token, None, "environment"))
        }
        _ if is_on_this_machine => Login::Given(Credentials::new("local", "local", None, None, "local")),
        _ => Login::DefaultChain,
    }
}

fn is_loopback(endpoint: &str) -> Result<bool, BadAddress> {
    let url = Url::parse(endpoint).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    let url =
        url.ok_or_else(|| bad(format!("the endpoint {:?} is no http URL", without_login(endpoint)), FORM))?;
    Ok(match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, variables: &[(&str, &str)]) -> Result<Address, String> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        Address::parse(url, |name| find(name).map(|(_, value)| (*value).to_owned()))
            .map_err(|error| error.to_string())
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "hush")];

    #[test]
    fn the_environment_fills_what_the_address_leaves_out() {
        let address = parse("dynamodb://my.signals?region=eu-west-1", &KEYS).unwrap();
        assert_eq!(address.to_string(), "dynamodb://my.signals?region=eu-west-1");
        let mut variables = KEYS.to_vec();
        variables.extend([("AWS_REGION", "eu-north-1"), ("AWS_ENDPOINT_URL", "https://gateway.example.org")]);
        let address = parse("dynamodb://My_Signals", &variables).unwrap();
        assert_eq!(
            address.to_string(),
            "dynamodb://My_Signals?region=eu-north-1&endpoint=https://gateway.example.org"
        );
        assert!(!address.is_on_this_machine());
    }

    #[test]
    fn a_server_on_this_machine_needs_nothing_else() {
        let address = parse("dynamodb://signals?endpoint=http://127.0.0.1:8000", &[]).unwrap();
        assert!(address.is_on_this_machine());
    }

    #[test]
    fn without_credentials_the_chain_is_asked_except_for_a_server_on_this_machine() {
        let login = |url, variables: &[_]| parse(url, variables).unwrap().login;
        assert!(matches!(login("dynamodb://signals?region=eu-west-1", &[]), Login::DefaultChain));
        assert!(matches!(login("dynamodb://signals?region=eu-west-1", &KEYS), Login::Given(_)));
        assert!(matches!(login("dynamodb://signals?endpoint=http://127.0.0.1:8000", &[]), Login::Given(_)));
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = parse("dynamodb://signals", &KEYS).unwrap_err();
        assert!(said.contains("no region; add ?region="), "{said}");
        let said = parse("dynamodb://signals?regoin=eu-west-1", &KEYS).unwrap_err();
        assert!(said.contains("\"regoin\""), "{said}");
        assert!(parse("dynamodb://", &KEYS).unwrap_err().contains("no table's name"));
        assert!(parse("dynamodb://a b c", &KEYS).is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let address = parse("dynamodb://AK:hu%2Fsh@signals?region=eu-west-1", &[]).unwrap();
        assert!(matches!(&address.login, Login::Given(given) if given.secret_access_key() == "hu/sh"));
        assert!(!format!("{address:?} {address}").contains("sh@"), "{address:?}");
        assert!(!format!("{address:?} {address}").contains("hu"), "{address:?}");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_url_is_an_address_or_a_sentence(
            url in r"\PC{0,40}|dynamodb:(//)?[a-z0-9.:@%]{0,20}/?[A-Za-z0-9_.-]{0,20}(\?[a-z_=%&0-9:/]{0,40})?",
            variable in prop::option::of("[a-z]{0,8}"),
        ) {
            if let Err(error) = Address::parse(&url, |_| variable.clone()) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn no_secret_is_shown_whatever_is_around_it(place in r"[A-Za-z0-9_.:/%-]{0,20}(\?[a-z_=%&0-9:/]{0,30})?") {
            for url in [
                format!("dynamodb://AK:hunter2@{place}"),
                format!("dynamodb://AK:hunter2{place}@signals"),
                format!("dynamodb://signals?region=x&endpoint=http://u:hunter2@{place}"),
                format!("dynamodb://signals?region=x&endpoint={place}:hunter2@h"),
            ] {
                let told = match Address::parse(&url, |_| Some("x".to_owned())) {
                    Ok(address) => format!("{address} {address:?}"),
                    Err(error) => format!("{error} {error:?}"),
                };
                prop_assert!(!told.contains("hunter2"), "{} for {}", told, url);
            }
        }
    }
}
