//! A small HTTP server that notes every request and answers as it is told: whole, in half, or never.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What the server got.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: tokio::time::Instant,
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: String,
    status: Option<u16>,
}

impl Request {
    /// The value of a header that must be there.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        &found.unwrap_or_else(|| panic!("no {name} in {self:?}")).1
    }
}

/// What it says to that.
pub enum Answer {
    /// A whole answer.
    Whole { status: u16, headers: String, body: String },
    /// These bytes, and then the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, for as long as the other side waits.
    Never,
}

/// An answer with this status.
pub fn answer(status: u16) -> Answer {
    Answer::Whole { status, headers: String::new(), body: String::new() }
}

impl Answer {
    pub fn header(self, name: &str, value: &str) -> Self {
        match self {
            Answer::Whole { status, headers, body } => {
                Answer::Whole { status, headers: format!("{headers}{name}: {value}\r\n"), body }
            }
            other => other,
        }
    }

    pub fn body(self, body: &str) -> Self {
        match self {
            Answer::Whole { status, headers, .. } => Answer::Whole { status, headers, body: body.to_owned() },
            other => other,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Answer::Whole { status, .. } => Some(*status),
            _ => None,
        }
    }
}

type Answers = dyn Fn(usize, &Request) -> Answer + Send + Sync;

struct Shared {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    answers: Box<Answers>,
    tls: Option<Arc<ServerConfig>>,
}

/// A server on a port of its own. It stops with the test's process.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    certificate: Option<String>,
}

impl Server {
    /// Answers the request of each number.
    pub fn start(answers: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Server::start_at(0, answers)
    }

    pub fn start_at(port: u16, answers: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Server::listen(port, Box::new(move |n, _| answers(n)), None)
    }

    pub fn start_with(answers: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Server::start_at_with(0, answers)
    }

    pub fn start_at_with(
        port: u16,
        answers: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Server::listen(port, Box::new(answers), None)
    }

    /// With a certificate that it made itself.
    pub fn start_tls(answers: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let server = Server::listen(0, Box::new(move |n, _| answers(n)), Some(Arc::new(config)));
        Server { certificate: Some(made.cert.pem()), ..server }
    }

    fn listen(port: u16, answers: Box<Answers>, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, connections) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { requests, connections, answers, tls });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Server { address, shared, certificate: None }
    }

    /// An address where nobody listens, and its port.
    pub fn a_free_port() -> (String, u16) {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        (format!("http://127.0.0.1:{port}"), port)
    }

    pub fn address(&self) -> String {
        match self.shared.tls {
            Some(_) => format!("https://localhost:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
    }

    pub fn certificate(&self) -> &str {
        self.certificate.as_deref().unwrap()
    }

    /// What was posted so far.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| request.method == "POST").cloned().collect()
    }

    /// The requests that were answered with 2xx.
    pub fn accepted(&self) -> Vec<Request> {
        let done = |request: &Request| request.status.is_some_and(|status| status / 100 == 2);
        self.requests().into_iter().filter(done).collect()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        match &self.tls {
            None => self.talk(stream),
            Some(config) => {
                let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                self.talk(StreamOwned::new(connection, stream));
            }
        }
    }

    fn talk(&self, stream: impl Read + Write) {
        let mut stream = BufReader::new(stream);
        while let Some(mut request) = read(&mut stream) {
            let mut requests = self.requests.lock().unwrap();
            let number = requests.iter().filter(|request| request.method == "POST").count();
            let answer = (self.answers)(number, &request);
            request.status = answer.status();
            requests.push(request);
            drop(requests);
            match answer {
                Answer::Whole { status, headers, body } => {
                    let length = body.len();
                    let text =
                        format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
                    if stream.get_mut().write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
                Answer::Raw(bytes) => return drop(stream.get_mut().write_all(&bytes)),
                // Reads until the other side gives up.
                Answer::Never => return drop(stream.read(&mut [0])),
            }
            drop(stream.get_mut().flush());
        }
    }
}

fn read(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0).map(|_| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    while let Some(header) = line().filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(": ")?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    let at = seriatim::clock::now();
    Some(Request { at, method, path, headers, body: String::from_utf8(body).unwrap(), status: None })
}
