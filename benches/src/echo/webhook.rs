//! Draining a journal through a webhook whose receiver reads the JSON it gets and answers, against a bare client that keeps its
//! connections and posts the same changes, made ready before, with the same headers, in batches of the same size, as many at the
//! same time.

use std::fs::File;
use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use seriatim::clock;
use seriatim::handler::Handling;
use seriatim_handlers::{Webhook, WebhookSettings};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{ROUNDS, Stage, settings};
use crate::rounds::Rounds;
use crate::{Backlog, Row};

const BATCH: usize = 100;

/// So many requests are under way at the same time for each partition.
const CONCURRENCY: usize = 8;

/// As many as a feed has when nothing else is said.
const PARTITIONS: usize = 16;

const TIMEOUT: Duration = Duration::from_secs(30);

const DONE: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// Measures it.
pub(crate) async fn webhook_echo(backlog: Backlog, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    let stage = Stage::set(backlog, progress).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let changes = Arc::new(AtomicU64::new(0));
    let server = tokio::spawn(serve(listener, Arc::clone(&changes)));
    let mut rounds = Rounds::default();
    for round in 1..=ROUNDS {
        progress(&format!(
            "{} changes through a webhook, round {round} of {ROUNDS}",
            stage.backlog.changes()
        ));
        let limit = bare_client(&stage, &url).await?;
        let webhook = Webhook::new(WebhookSettings {
            url: url.clone(),
            single: false,
            timeout: TIMEOUT,
            headers: Vec::new(),
            envelope: Default::default(),
            secrets: Vec::new(),
        })?;
        let handling = Handling::AtLeastOnce(Arc::new(webhook));
        rounds.add(stage.drain(round, handling, settings(BATCH, CONCURRENCY)).await?, limit);
    }
    let (value, limit) = rounds.middle();
    server.abort();
    let (received, sent) = (changes.load(Ordering::Relaxed), 2 * ROUNDS as u64 * stage.backlog.changes());
    ensure!(received == sent, "the receiver got {received} changes instead of {sent}");
    Ok(Row::new("webhook-echo", value.round(), "changes/s", limit.round(), 0.7))
}

async fn bare_client(stage: &Stage, url: &str) -> anyhow::Result<f64> {
    let bodies = Arc::new(Mutex::new(bodies(&stage.lines())?));
    let client = seriatim_handlers::webhook::plain_client()?;
    let url: url::Url = url.parse()?;
    let began = clock::now();
    let mut clients = JoinSet::new();
    for _ in 0..PARTITIONS * CONCURRENCY {
        let (bodies, client, url) = (Arc::clone(&bodies), client.clone(), url.clone());
        clients.spawn(async move {
            loop {
                let next = bodies.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((key, body)) = next else { return Ok(()) };
                let response = client
                    .post(url.clone())
                    .timeout(TIMEOUT)
                    .header("Content-Type", "application/json")
                    .header("Idempotency-Key", key)
                    .header("Seriatim-Feed", "orders")
                    .header("Seriatim-Partition", "7")
                    .header("Seriatim-Epoch", "1")
                    .body(body)
                    .send()
                    .await?;
                ensure!(response.status().is_success(), "the server refused");
                response.bytes().await?;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(stage.backlog.changes() as f64 / began.elapsed().as_secs_f64())
}

/// The changes of the file in batches, each as one JSON array, with a key of the usual length.
fn bodies(lines: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut bodies: Vec<(String, String)> = Vec::new();
    for (number, line) in BufRead::lines(std::io::BufReader::new(File::open(lines)?)).enumerate() {
        match bodies.last_mut() {
            Some((_, body)) if number % BATCH != 0 => {
                body.push(',');
                body.push_str(&line?);
            }
            _ => bodies
                .push((format!("orders/7/{number}-{}/{number:016x}", number + BATCH), format!("[{}", line?))),
        }
    }
    bodies.iter_mut().for_each(|(_, body)| body.push(']'));
    Ok(bodies)
}

/// Answers every request with 204, and counts the changes in it.
async fn serve(listener: TcpListener, changes: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, Arc::clone(&changes)));
    }
}

async fn answer(stream: TcpStream, changes: Arc<AtomicU64>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().context("the length")?;
                }
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        let read: Vec<serde_json::Value> = serde_json::from_slice(&body)?;
        changes.fetch_add(read.len() as u64, Ordering::Relaxed);
        stream.get_mut().write_all(DONE).await?;
    }
}
