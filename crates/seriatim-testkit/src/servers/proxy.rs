//! A proxy between a client and a server that breaks their connection on demand.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Passes TCP connections on to a server on this machine, until it is told to break them.
pub struct Proxy {
    port: u16,
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Both ends of every connection.
    streams: Vec<TcpStream>,
    /// A request with these bytes in it reaches the server, and its answer reaches nobody.
    lose_answer_to: Option<Vec<u8>>,
    /// How many answers were lost.
    lost: u32,
    /// New connections are closed at once.
    closed: bool,
    /// How many were.
    refused: u32,
}

impl Proxy {
    /// A proxy before the server that listens on this port. Its own port lives as long as the process.
    pub fn before(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Mutex::new(State::default()));
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if lock(&state).closed {
                    lock(&state).refused += 1;
                    continue;
                }
                drop(pass(client, server, &state));
            }
        });
        Ok(Proxy { port, shared })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks every connection there is. New ones can be made.
    pub fn cut(&self) {
        for stream in lock(&self.shared).streams.drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Breaks every connection there is, and refuses new ones until [`Proxy::open`].
    pub fn close(&self) {
        lock(&self.shared).closed = true;
        self.cut();
    }

    /// Lets connections through again.
    pub fn open(&self) {
        lock(&self.shared).closed = false;
    }

    /// How many connections were refused so far.
    pub fn refused(&self) -> u32 {
        lock(&self.shared).refused
    }

    /// The next request that has these bytes in it reaches the server and is done there, and then its connection breaks
    /// before the answer gets through.
    pub fn lose_answer_to(&self, request: &str) {
        lock(&self.shared).lose_answer_to = Some(request.as_bytes().to_vec());
    }

    /// How many answers were lost so far.
    pub fn lost(&self) -> u32 {
        lock(&self.shared).lost
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass(client: TcpStream, server: u16, state: &Arc<Mutex<State>>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    lock(state).streams.extend([client.try_clone()?, server.try_clone()?]);
    let (back, front) = (server.try_clone()?, client.try_clone()?);
    // Whether the answer that comes next is one to lose.
    let losing = Arc::new(Mutex::new(false));
    let (requests, answers) = (Arc::clone(&losing), losing);
    let (looking, counting) = (Arc::clone(state), Arc::clone(state));
    std::thread::spawn(move || {
        copy(client, server, |bytes| {
            let mut state = lock(&looking);
            if state.lose_answer_to.as_ref().is_some_and(|request| contains(bytes, request)) {
                state.lose_answer_to = None;
                *requests.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            true
        })
    });
    std::thread::spawn(move || {
        copy(back, front, |_| {
            let lose = *answers.lock().unwrap_or_else(PoisonError::into_inner);
            if lose {
                lock(&counting).lost += 1;
            }
            !lose
        })
    });
    Ok(())
}

/// Copies until one end closes or `may_pass` says no; then both are closed.
fn copy(mut from: TcpStream, mut to: TcpStream, mut may_pass: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !may_pass(&buffer[..read]) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

fn contains(bytes: &[u8], request: &[u8]) -> bool {
    bytes.windows(request.len().max(1)).any(|window| window == request)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says each byte back.
    fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || copy(client.try_clone().unwrap(), client, |_| true));
            }
        });
        port
    }

    fn ask(stream: &mut TcpStream, what: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(what)?;
        let mut answer = vec![0; what.len()];
        stream.read_exact(&mut answer).map(|()| answer)
    }

    #[test]
    fn what_is_said_comes_through_until_an_answer_is_lost() {
        let proxy = Proxy::before(echo()).unwrap();
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        let mut stream = connect();
        assert_eq!(ask(&mut stream, b"hello").unwrap(), b"hello");
        proxy.lose_answer_to("COMMIT");
        assert!(ask(&mut stream, b"x COMMIT y").is_err());
        assert_eq!(proxy.lost(), 1);
        let mut stream = connect();
        assert_eq!(ask(&mut stream, b"COMMIT").unwrap(), b"COMMIT");
        proxy.close();
        assert!(ask(&mut stream, b"hello").is_err());
        proxy.open();
        assert_eq!(ask(&mut connect(), b"hello").unwrap(), b"hello");
    }
}
