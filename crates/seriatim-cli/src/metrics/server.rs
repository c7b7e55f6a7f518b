//! A small HTTP server: the metrics, and whether the host lives and is ready.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::exposition;
use super::snapshot::Source;

/// So many may be connected at the same time, and each for so long: whoever scrapes comes back.
const MOST_CONNECTIONS: usize = 32;
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);

/// A client that has not sent its request after this long will not.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);

/// Pause after a connection that could not be accepted: the system may be out of something.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub async fn run(listener: TcpListener, source: Arc<Source>) {
    let mut connections = Connections::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        connections.add(serve(stream, Arc::clone(&source)));
    }
}

async fn serve(stream: TcpStream, source: Arc<Source>) {
    let answer = service_fn(move |request| answer(request, Arc::clone(&source)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .serve_connection(TokioIo::new(stream), answer);
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

async fn answer(
    request: Request<Incoming>,
    source: Arc<Source>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let page = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => match exposition::text(source.snapshot().await) {
            Ok(text) => page(StatusCode::OK, exposition::CONTENT_TYPE, text),
            Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n")),
        },
        (&Method::GET | &Method::HEAD, "/healthz") => page(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/readyz") => match source.not_ready().await {
            None => page(StatusCode::OK, "text/plain", "ready\n".to_owned()),
            Some(why) => page(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{why}\n")),
        },
        (_, "/metrics" | "/healthz" | "/readyz") => {
            let mut page = page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned());
            page.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            page
        }
        _ => {
            let places = "the metrics are at /metrics, and /healthz and /readyz tell how the host is\n";
            page(StatusCode::NOT_FOUND, "text/plain", places.to_owned())
        }
    };
    Ok(page)
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut page = Response::new(Full::new(Bytes::from(text)));
    *page.status_mut() = status;
    page.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    page
}
