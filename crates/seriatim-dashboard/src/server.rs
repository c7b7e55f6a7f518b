//! Serves routes to clients who may be slow, many or hostile: a bounded number of connections, each with little time to ask.

use std::collections::VecDeque;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// So many may be connected at the same time.
const MOST_CONNECTIONS: usize = 256;

/// A client that has not sent its headers after this long will not.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// The longest that a connection lasts: browsers open another one.
const LONGEST_CONNECTION: Duration = Duration::from_secs(3600);

/// Pause after a connection that could not be accepted: the system may be out of something.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, router: Router) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.add(connection(stream, router.clone())),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that goes away, talks nonsense or stays for ever is its own affair.
    drop(tokio::time::timeout(LONGEST_CONNECTION, connection).await);
}

/// The connections that are open; they end with this.
#[derive(Default)]
struct Connections {
    open: JoinSet<()>,
    /// From the oldest to the newest.
    handles: VecDeque<AbortHandle>,
}

impl Connections {
    /// Serves one more. If there are too many, the oldest one ends: clients that only hold connections keep nobody out.
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        while self.open.try_join_next().is_some() {}
        self.handles.retain(|handle| !handle.is_finished());
        while self.handles.len() >= MOST_CONNECTIONS {
            self.handles.pop_front().inspect(AbortHandle::abort);
        }
        self.handles.push_back(self.open.spawn(connection));
    }
}
