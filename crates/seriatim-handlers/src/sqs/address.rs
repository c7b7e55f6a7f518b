//! Which queue, where, and by which right.

use std::fmt;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Region};
use aws_sdk_sqs::{Client, Config};
use aws_smithy_http_client::tls;
use thiserror::Error;
use url::{Host, Url};

/// How often one request is sent at most, when it is throttled or fails on its way.
const TRIES: u32 = 3;

/// Why changes cannot go to this queue: what the setting is, and what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadQueue {
    /// The text is no address of a queue.
    #[error(
        "is no URL of a queue: write it as `aws sqs get-queue-url` prints it, https://sqs.REGION.amazonaws.com/ACCOUNT/NAME.fifo"
    )]
    Url,
    /// A queue without order.
    #[error("is a standard queue, which keeps no order: use a FIFO queue, whose name ends with .fifo")]
    Standard,
    /// The endpoint is no address.
    #[error("has an endpoint that is no http URL")]
    Endpoint,
    /// Nobody says in which region the queue is.
    #[error("has no region: set AWS_REGION")]
    Region,
    /// Nobody says who sends.
    #[error(
        "has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they are temporary"
    )]
    Credentials,
}

/// Which queue, where, and by which right.
///
/// ```
/// use seriatim_handlers::sqs::QueueAddress;
///
/// let queue = QueueAddress::parse("http://127.0.0.1:5000/123456789012/orders.fifo", None, |_| None)?;
/// assert_eq!(queue.url(), "http://127.0.0.1:5000/123456789012/orders.fifo");
/// # Ok::<(), seriatim_handlers::sqs::BadQueue>(())
/// ```
#[derive(Clone)]
pub struct QueueAddress {
    url: String,
    region: String,
    endpoint: Option<String>,
    credentials: Credentials,
}

impl QueueAddress {
    /// Reads a queue's URL. The requests go to `endpoint`, else where `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` say, else to
    /// Amazon, or to the server in the URL if that is not Amazon's. The region is that of the URL, else `AWS_REGION` or
    /// `AWS_DEFAULT_REGION`. Credentials are `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. A server on this
    /// machine needs neither region nor credentials.
    pub fn parse(
        queue: &str,
        endpoint: Option<String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadQueue> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let url = Url::parse(queue).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
        let url = url.ok_or(BadQueue::Url)?;
        let host = url.host_str().ok_or(BadQueue::Url)?;
        match url.path_segments().and_then(|mut parts| parts.next_back()) {
            None | Some("") => return Err(BadQueue::Url),
            Some(name) if !name.ends_with(".fifo") => return Err(BadQueue::Standard),
            Some(_) => {}
        }
        let is_amazons = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
        let endpoint = endpoint
            .or_else(|| variable("AWS_ENDPOINT_URL_SQS"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .or_else(|| (!is_amazons).then(|| url.origin().ascii_serialization()));
        let is_local = endpoint.as_deref().map_or(Ok(false), is_loopback)?;
        let local = |value: &str| is_local.then(|| value.to_owned());
        let region = is_amazons
            .then(|| region_in(host))
            .flatten()
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| local("us-east-1"))
            .ok_or(BadQueue::Region)?;
        let credentials = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(key), Some(secret)) => {
                Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment")
            }
            _ if is_local => Credentials::new("local", "local", None, None, "local"),
            _ => return Err(BadQueue::Credentials),
        };
        Ok(QueueAddress { url: queue.to_owned(), region, endpoint, credentials })
    }

    /// The same, with the environment of this process.
    pub fn from_url(queue: &str, endpoint: Option<String>) -> Result<Self, BadQueue> {
        QueueAddress::parse(queue, endpoint, |name| std::env::var(name).ok())
    }

    /// The queue's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client for it. Throttled and failed requests are sent again, with pauses.
    pub fn client(&self) -> Client {
        let http = aws_smithy_http_client::Builder::new();
        let http = match self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http:")) {
            // Reading all of a system's certificates takes a while.
            true => http.build_http(),
            false => {
                http.tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring)).build_https()
            }
        };
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(3))
            .operation_attempt_timeout(Duration::from_secs(5))
            .operation_timeout(Duration::from_secs(15));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(Region::new(self.region.clone()))
            .credentials_provider(self.credentials.clone())
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(timeouts.build());
        let config = match &self.endpoint {
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config,
        };
        Client::from_conf(config.build())
    }
}

/// Without the credentials.
impl fmt::Debug for QueueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {}", self.url, self.region)
    }
}

/// `sqs.REGION.amazonaws.com`, or of old `REGION.queue.amazonaws.com`.
fn region_in(host: &str) -> Option<String> {
    let parts: Vec<&str> = host.split('.').collect();
    match parts.as_slice() {
        ["sqs" | "sqs-fips", region, "amazonaws", ..] | [region, "queue", "amazonaws", ..] => {
            Some((*region).to_owned())
        }
        _ => None,
    }
}

fn is_loopback(endpoint: &str) -> Result<bool, BadQueue> {
    let url = Url::parse(endpoint).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    Ok(match url.ok_or(BadQueue::Endpoint)?.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo";
    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "hush")];

    fn parse(
        queue: &str,
        endpoint: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<QueueAddress, BadQueue> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        QueueAddress::parse(queue, endpoint.map(str::to_owned), |name| {
            find(name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_queue_of_amazons_needs_credentials_and_tells_its_region() {
        let queue = parse(QUEUE, None, &KEYS).unwrap();
        assert_eq!((queue.region.as_str(), queue.endpoint.as_deref()), ("eu-west-1", None));
        assert_eq!(parse(QUEUE, None, &[]).unwrap_err(), BadQueue::Credentials);
        assert!(!format!("{queue:?}").contains("hush"), "{queue:?}");
    }

    #[test]
    fn the_endpoint_is_that_of_the_setting_then_of_the_environment_then_of_the_url() {
        let here = "http://127.0.0.1:5000/1/orders.fifo";
        let endpoint = |queue, endpoint, more: &[_]| {
            parse(queue, endpoint, &[&KEYS[..], more].concat()).unwrap().endpoint
        };
        assert_eq!(endpoint(here, None, &[]).as_deref(), Some("http://127.0.0.1:5000"));
        let variables = [("AWS_ENDPOINT_URL", "http://a:1"), ("AWS_REGION", "x")];
        assert_eq!(endpoint(QUEUE, None, &variables).as_deref(), Some("http://a:1"));
        let variables = [variables[0], variables[1], ("AWS_ENDPOINT_URL_SQS", "http://b:2")];
        assert_eq!(endpoint(here, None, &variables).as_deref(), Some("http://b:2"));
        assert_eq!(endpoint(here, Some("http://c:3"), &variables).as_deref(), Some("http://c:3"));
    }

    #[test]
    fn what_is_no_fifo_queue_is_refused() {
        assert_eq!(parse("orders.fifo", None, &KEYS).unwrap_err(), BadQueue::Url);
        assert_eq!(parse("https://sqs.x.amazonaws.com/", None, &KEYS).unwrap_err(), BadQueue::Url);
        assert_eq!(parse("http://AK:hush@h/1/orders.fifo", None, &KEYS).unwrap_err(), BadQueue::Url);
        assert_eq!(parse("http://127.0.0.1:1/1/orders", None, &[]).unwrap_err(), BadQueue::Standard);
        assert_eq!(parse(QUEUE, Some("nowhere"), &KEYS).unwrap_err(), BadQueue::Endpoint);
        assert_eq!(parse("http://gate.example/1/orders.fifo", None, &KEYS).unwrap_err(), BadQueue::Region);
    }
}
