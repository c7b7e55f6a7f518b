//! The client that posts, and what it means when there is no answer.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use seriatim::Failure;

use super::BadWebhook;
use super::response::Trouble;

/// Connections that were not used for so long are closed, before most servers do it.
const IDLE: Duration = Duration::from_secs(15);

/// A target that takes longer than this to accept a connection is not there.
const CONNECT: Duration = Duration::from_secs(10);

/// A client that keeps connections, follows no redirects, and uses no proxy.
pub fn client(url: &Url, timeout: Duration) -> Result<Client, BadWebhook> {
    let failed = |error: &dyn std::fmt::Display| BadWebhook::Client(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = Client::builder()
        .user_agent(concat!("seriatim/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .http1_only()
        .pool_idle_timeout(IDLE)
        // Shorter than the whole, so that one that does not connect is told from one that does not answer.
        .connect_timeout(CONNECT.min(timeout.mul_f64(0.9)));
    let builder = match url.scheme() {
        "https" => {
            // Whoever installed one first wins; both do.
            drop(rustls::crypto::ring::default_provider().install_default());
            builder
        }
        // Plain HTTP needs no certificates: a machine without any can do it too.
        _ => {
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(&error))?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            builder.tls_backend_preconfigured(config)
        }
    };
    builder.build().map_err(|error| failed(&innermost(&error)))
}

/// What it means that there is no answer.
pub fn trouble(error: &reqwest::Error, timeout: Duration) -> Trouble {
    let why = innermost(error);
    if error.is_connect() {
        let why = if error.is_timeout() { "no connection in time".to_owned() } else { why };
        return Trouble::Clear(Failure::target(format!("cannot be reached: {why}")));
    }
    if error.is_builder() {
        return Trouble::Clear(Failure::target(format!("cannot be called: {why}")));
    }
    Trouble::Unclear(Failure::change(match error.is_timeout() {
        true => format!("did not answer within {timeout:?}; whether it has done the work is not known"),
        false => format!(
            "broke off before its answer was whole ({why}); whether it has done the work is not known"
        ),
    }))
}

/// What is at the bottom of an error: the layers above it say only where it came through.
fn innermost(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}
