//! Receives events by POST, from however many senders and in whatever order, and applies each once, in the order of its object's chain.
//! What it has applied, and what came too early, is in a file: a restart forgets nothing.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use seriatim::FeedName;
use seriatim::order::{Gate, JsonLines, Limits};
use seriatim_sqlite::SqliteGateState;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

type Lines = JsonLines<SqliteGateState>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let state = SqliteGateState::open(Path::new("gate.db"), &FeedName::new("works")?).await?;
    let mut gate = JsonLines::new(Gate::open(state, Limits::default()).await?);
    // Held when their turn came, and perhaps not applied before a crash.
    for line in gate.left_over().await? {
        apply_from(&mut gate, line).await?;
    }
    let gate = Arc::new(Mutex::new(gate));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&gate)));
    }
}

/// Answers the requests of one connection. (A service would use its web framework here.)
async fn serve(stream: TcpStream, gate: Arc<Mutex<Lines>>) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(body) = request(&mut stream).await? {
        // Also done when an event has to wait: the gate has it, and needs no second sending.
        let answer = match receive(&mut *gate.lock().await, &body).await {
            Ok(()) => "204 No Content",
            Err(error) => {
                eprintln!("{error}");
                "500 Internal Server Error"
            }
        };
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// The body of the next request; `None` when there is none.
async fn request(stream: &mut BufReader<TcpStream>) -> anyhow::Result<Option<Vec<u8>>> {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await? > 0 {
        if line.trim_end().is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            return Ok(Some(body));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    Ok(None)
}

async fn receive(gate: &mut Lines, body: &[u8]) -> anyhow::Result<()> {
    for event in serde_json::from_slice::<Vec<Value>>(body)? {
        take(gate, &event.to_string()).await?;
    }
    Ok(())
}

async fn take(gate: &mut Lines, line: &str) -> anyhow::Result<()> {
    match gate.next(line).await? {
        Some(line) => apply_from(gate, line).await,
        None => Ok(()),
    }
}

/// Applies an event, and those that were waiting for it.
async fn apply_from(gate: &mut Lines, line: String) -> anyhow::Result<()> {
    let mut next = Some(line);
    while let Some(line) = next {
        let event: Value = serde_json::from_str(&line)?;
        println!("{} {} {}", event["id"], event["key"]["object"], event["after"]);
        next = gate.applied(&line).await?;
    }
    Ok(())
}
