//! A small HTTP server with one page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::exposition;
use super::snapshot::Source;

/// So many may be connected at the same time, and each for so long: whoever scrapes comes back.
const MOST_CONNECTIONS: usize = 32;
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);

/// Pause after a connection that could not be accepted: the system may be out of something.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub async fn run(listener: TcpListener, source: Arc<Source>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // Ends with this future, and so do its connections.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let source = Arc::clone(&source);
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(request, Arc::clone(&source)));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            // A client that goes away, talks nonsense or stays for ever is its own affair.
            drop(tokio::time::timeout(LONGEST_CONNECTION, connection).await);
            drop(permit);
        });
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
        (_, "/metrics") => {
            let mut page = page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned());
            page.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            page
        }
        _ => page(StatusCode::NOT_FOUND, "text/plain", "the metrics are at /metrics\n".to_owned()),
    };
    Ok(page)
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut page = Response::new(Full::new(Bytes::from(text)));
    *page.status_mut() = status;
    page.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    page
}
