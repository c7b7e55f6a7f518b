//! Metrics for Prometheus: what this host has done, how far every partition is behind, whoever owns it, what is parked and what is blocked
//! now; and whether the host lives and is ready.

mod exposition;
mod readiness;
mod server;
mod snapshot;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use seriatim::FeedName;
use seriatim::host::Stats;
use seriatim::queue::Queue;
use seriatim::source::Feed;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use snapshot::Source;

use crate::error::{Error, Result};

/// A feed that is measured.
#[derive(Clone)]
pub struct Measured {
    pub of: Of,
    pub stats: Arc<Stats>,
}

/// What is asked for the lag.
#[derive(Clone)]
pub enum Of {
    /// The feed's source, from where its checkpoints in the store are.
    Feed(Arc<dyn Feed>),
    /// The queue itself.
    Queue(FeedName, Arc<dyn Queue>),
}

/// The metrics of one run. They are served until this is dropped.
pub struct Metrics(JoinHandle<()>);

impl Metrics {
    /// Serves them at this address.
    pub async fn serve(address: SocketAddr, source: Source) -> Result<Self> {
        let cannot = |error: std::io::Error| {
            Error::failed(format!("metrics cannot be served at {address}: {error}"))
                .help("give --metrics another address or port; port 0 takes any that is free")
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        tracing::info!("metrics at http://{bound}/metrics");
        Ok(Metrics(tokio::spawn(server::run(listener, Arc::new(source)))))
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads an address. A port alone is one of this machine's own: nobody else can read it.
pub fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    match port {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
            "write a port (9464) or an address with a port (0.0.0.0:9464, [::]:9464)".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_not_for_others() {
        for text in ["9464", ":9464", "localhost:9464", "127.0.0.1:9464"] {
            assert_eq!(address(text), Ok("127.0.0.1:9464".parse().unwrap()), "{text}");
        }
        assert_eq!(address("0.0.0.0:80"), Ok("0.0.0.0:80".parse().unwrap()));
        assert!(address("99999").is_err() && address("example.org:1").is_err() && address("").is_err());
    }
}
