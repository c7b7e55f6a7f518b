//! The handler `webhook`: a POST of changes as JSON to an address.
//!
//! ```text
//!   2xx, whole                     done
//!   429, 503                       the target is busy: the feed waits, at least as long as Retry-After says
//!   408, other 5xx, no answer      whether it was done is not known: the same once more, then in halves until one is to blame
//!   other 4xx                      it will never be accepted: parked at once
//!   refused, unknown, untrusted    the target is not there: the feed waits, nothing is parked
//!   3xx                            not followed: the feed waits until the address in the configuration is mended
//! ```
//!
//! `Idempotency-Key` names exactly the changes of a request: the same changes always have the same key, and other changes never
//! have it. What is sent again without a crash in between is first sent again as it was. After a crash, changes may come in
//! other batches, under other keys; with batches of one each change has one key for ever. The `id` of a change never changes.
//!
//! `webhook-id` is the same name, and with `webhook-timestamp` and `webhook-signature` a request is what
//! [Standard Webhooks](https://www.standardwebhooks.com) describes. Time and signature are made for each attempt.

mod request;
mod response;
mod transport;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use seriatim::{Change, Context, Failure, Handler, clock};
use thiserror::Error;

use crate::{Envelope, Sink};
pub use request::check_secret;
#[cfg(feature = "nats")]
pub(crate) use request::escaped;
use request::{Body, Signer};
use response::Trouble;

/// What is posted twice in a row is posted again after this pause.
const ONCE_MORE_AFTER: Duration = Duration::from_millis(100);

/// Headers that Seriatim sets itself, besides those that begin with its name.
const RESERVED: [&str; 9] = [
    "content-type",
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// What a webhook is called with.
#[derive(Clone)]
pub struct WebhookSettings {
    /// Where to post to.
    pub url: String,
    /// Whether the body is one change, as an object; otherwise it is an array of them.
    pub single: bool,
    /// How long the whole answer may take.
    pub timeout: Duration,
    /// Headers to send with each request.
    pub headers: Vec<(String, String)>,
    /// The form of changes. With the binary mode of CloudEvents, a request has one change: `single`.
    pub envelope: Envelope,
    /// What to sign bodies with: texts, or `whsec_` and base64. With several, there is a signature for each.
    pub secrets: Vec<String>,
}

/// Why a webhook cannot be called like this.
#[derive(Debug, Error)]
pub enum BadWebhook {
    /// The address is none.
    #[error("is no address: {0}")]
    Url(String),
    /// The scheme is something else.
    #[error("must begin with http:// or https://, not {0:?}")]
    Scheme(String),
    /// A header cannot be sent.
    #[error("cannot have the header {name:?}: {why}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A secret cannot be used.
    #[error(
        "cannot be signed with a secret that is empty, or begins with whsec_ and is no base64 after that"
    )]
    Secret,
    /// The system's certificates are missing, or the like.
    #[error("cannot be called: {0}")]
    Client(String),
}

/// Handles changes by posting them. See the [module](self).
pub struct Webhook {
    client: Client,
    url: Url,
    /// The address without what may be secret in it.
    shown: String,
    headers: HeaderMap,
    single: bool,
    timeout: Duration,
    signer: Option<Signer>,
    envelope: Envelope,
}

impl Webhook {
    /// Connects to nothing yet.
    pub fn new(settings: WebhookSettings) -> Result<Self, BadWebhook> {
        let url = address(&settings.url)?;
        Ok(Webhook {
            client: transport::client(&url, settings.timeout)?,
            shown: shown(&url),
            url,
            headers: headers(&settings.headers)?,
            single: settings.single,
            timeout: settings.timeout,
            envelope: settings.envelope,
            signer: Signer::new(&settings.secrets)?,
        })
    }

    /// Whether somebody answers there, whatever they say. Asks with HEAD, which changes nothing.
    pub async fn reach(&self) -> Result<(), Failure> {
        let request = self.client.head(self.url.clone()).headers(self.headers.clone()).timeout(self.timeout);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.no_answer(error).into_failure()),
        }
    }

    fn request(&self, changes: &[Change], context: &Context) -> RequestBuilder {
        let body = Body::of(changes, self.single, &self.envelope);
        let (lease, key) = (&context.lease, body.key(&context.lease.id));
        let mut request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .timeout(self.timeout)
            .header("Content-Type", self.envelope.content_type(self.single && changes.len() == 1))
            .header("Idempotency-Key", key)
            .header("Seriatim-Feed", request::escaped(lease.id.feed.as_str()))
            .header("Seriatim-Partition", lease.id.partition.to_string())
            .header("Seriatim-Epoch", lease.epoch.to_string());
        // A time of this attempt: a receiver refuses what somebody has recorded and sends again.
        let (id, second) = (body.message_id(&lease.id), clock::wall().as_second());
        request = request.header("webhook-id", &id).header("webhook-timestamp", second);
        if let Some(signer) = &self.signer {
            request = request
                .header("webhook-signature", signer.sign_message(&id, second, &body))
                .header("Seriatim-Signature", signer.sign(&body));
        }
        for (name, value) in changes.iter().flat_map(|change| self.envelope.attributes(change)) {
            request = request.header(format!("ce-{name}"), request::escaped_attribute(&value));
        }
        request.body(body.into_bytes())
    }

    async fn post(&self, request: RequestBuilder) -> Result<(), Trouble> {
        let response = request.send().await.map_err(|error| self.no_answer(error))?;
        let answer = response::read(response).await.map_err(|error| self.no_answer(error))?;
        answer.verdict().map_err(|trouble| trouble.about(&self.shown))
    }

    fn no_answer(&self, error: reqwest::Error) -> Trouble {
        transport::trouble(&error, self.timeout).about(&self.shown)
    }
}

impl Sink for Webhook {}

#[async_trait]
impl Handler for Webhook {
    async fn handle(&self, changes: &[Change], context: &Context) -> Result<(), Failure> {
        // Several changes that failed are cut into halves next, with keys of their own. But perhaps they were done and only
        // the answer got lost: so first the same again, under the same key, which the receiver may know.
        let posted = match self.post(self.request(changes, context)).await {
            Err(Trouble::Unclear(why)) if changes.len() > 1 => {
                tracing::warn!(feed = %context.lease.id.feed, "{why}; the same request comes once more");
                tokio::time::sleep(ONCE_MORE_AFTER).await;
                // Whatever the second answer is, the first request may have been done.
                let again = self.post(self.request(changes, context)).await;
                again.map_err(|trouble| Trouble::Unclear(trouble.into_failure()))
            }
            posted => posted,
        };
        posted.map_err(|trouble| match trouble {
            Trouble::Clear(failure) => failure,
            Trouble::Unclear(failure) => failure.unanswered_at(0..changes.len()),
        })
    }

    fn time_for(&self, _: usize, timeout: Duration) -> Duration {
        // Twice, and the pause; each request has its own limit.
        timeout.saturating_mul(2) + 2 * ONCE_MORE_AFTER
    }
}

/// The client that webhooks at plain HTTP addresses use, for comparison.
#[doc(hidden)]
pub fn plain_client() -> Result<Client, BadWebhook> {
    transport::client(&address("http://localhost/")?, Duration::from_secs(30))
}

/// Whether this can be posted to.
pub fn check_url(url: &str) -> Result<(), BadWebhook> {
    address(url).map(drop)
}

/// Whether this header can be sent.
pub fn check_header(name: &str, value: &str) -> Result<(), BadWebhook> {
    header(name, value).map(drop)
}

/// Reads an address.
fn address(text: &str) -> Result<Url, BadWebhook> {
    let url = Url::parse(text).map_err(|error| BadWebhook::Url(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(BadWebhook::Scheme(other.to_owned())),
    }
}

/// The address without user, password and parameters.
fn shown(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, BadWebhook> {
    given.iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), BadWebhook> {
    let bad = |why| BadWebhook::Header { name: name.to_owned(), why };
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("that is no name of a header"))?;
    if RESERVED.contains(&known.as_str())
        || ["seriatim-", "ce-"].iter().any(|own| known.as_str().starts_with(own))
    {
        return Err(bad("it is set by Seriatim itself"));
    }
    let mut value =
        HeaderValue::from_str(value).map_err(|_| bad("its value has characters that headers cannot have"))?;
    // It may be a token.
    value.set_sensitive(true);
    Ok((known, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, headers: &[(&str, &str)]) -> WebhookSettings {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        WebhookSettings {
            url: url.to_owned(),
            single: false,
            timeout: Duration::from_secs(1),
            headers,
            envelope: Envelope::default(),
            secrets: Vec::new(),
        }
    }

    fn refused(url: &str, headers: &[(&str, &str)]) -> String {
        Webhook::new(settings(url, headers)).err().map_or_else(String::new, |bad| bad.to_string())
    }

    #[test]
    fn what_cannot_be_called_is_told_why() {
        assert!(refused("127.0.0.1:8080", &[]).contains("is no address"));
        assert!(refused("ftp://h/", &[]).contains("http:// or https://"));
        assert!(refused("http://h/", &[("Bad Name", "x")]).contains("no name of a header"));
        assert!(refused("http://h/", &[("X", "a\nb")]).contains("cannot have"));
        assert!(refused("http://h/", &[("idempotency-key", "x")]).contains("set by Seriatim"));
        assert_eq!(refused("http://h/", &[("Authorization", "Bearer x")]), "");
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let url = address("https://user:word@example.org:8443/in?token=secret").unwrap();
        assert_eq!(shown(&url), "https://example.org:8443/in");
    }
}
