//! A replication connection: the one kind that the driver does not have, since both sides talk at once on it.
//!
//! It is made as the driver makes its own: the same hosts, TLS, user and password.

mod session;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use postgres_protocol::message::frontend;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::Mutex;

use super::frame;
use super::lsn::Lsn;
use super::message::Malformed;
use crate::database::Database;

/// A message that claims to be larger is none: no value of PostgreSQL's is, and a row that is cannot be kept.
const LARGEST: usize = 1 << 30;

/// How long the server has for an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// What can go wrong with a replication connection.
#[derive(Debug, Error)]
pub(super) enum WireError {
    /// The connection is lost, or was never made.
    #[error("the replication connection is lost: {0}")]
    Lost(#[from] std::io::Error),
    /// What the server said.
    #[error("the server refuses the replication connection: {message} (SQLSTATE {code})")]
    Server { code: String, message: String },
    /// What cannot be understood.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// What this program cannot do.
    #[error("{0}")]
    Cannot(&'static str),
}

impl WireError {
    /// Whether somebody else reads the slot.
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self, WireError::Server { code, .. } if code == "55006")
    }
}

/// Bytes to and from a server.
pub(super) trait Bytestream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bytestream for S {}

/// A replication connection.
pub(super) struct Wire {
    reader: ReadHalf<Box<dyn Bytestream>>,
    buffer: BytesMut,
    writer: Writer,
}

/// The half that talks to the server. Clones share it.
#[derive(Clone)]
pub(super) struct Writer(Arc<Mutex<WriteHalf<Box<dyn Bytestream>>>>);

impl Writer {
    async fn send(&self, bytes: &[u8]) -> Result<(), WireError> {
        let mut writer = self.0.lock().await;
        writer.write_all(bytes).await?;
        Ok(writer.flush().await?)
    }

    /// Tells the server that everything up to here is kept.
    pub(super) async fn kept(&self, upto: Lsn) -> Result<(), WireError> {
        let (mut bytes, now) = (BytesMut::new(), seriatim::clock::wall().as_microsecond() - YEAR_2000);
        frontend::CopyData::new(frame::kept(upto, now).as_slice())?.write(&mut bytes);
        self.send(&bytes).await
    }
}

/// Microseconds between 1970 and 2000, where PostgreSQL's clock begins.
pub(super) const YEAR_2000: i64 = 946_684_800_000_000;

/// A row of an answer.
pub(super) type Answer = Vec<Option<String>>;

impl Wire {
    /// Connects to the database.
    pub(super) async fn connect(database: &Database) -> Result<Self, WireError> {
        session::connect(database).await
    }

    fn new(stream: Box<dyn Bytestream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Wire { reader, buffer: BytesMut::new(), writer: Writer(Arc::new(Mutex::new(writer))) }
    }

    /// The half that talks to the server.
    pub(super) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// The next message and its kind. Nothing is lost when this is dropped before it is done.
    async fn message(&mut self) -> Result<(u8, Bytes), WireError> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(message);
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// A message that is here as a whole.
    fn buffered(&mut self) -> Result<Option<(u8, Bytes)>, WireError> {
        let Some(head) = self.buffer.get(..5) else { return Ok(None) };
        let kind = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=LARGEST).contains(&length) {
            return Err(Malformed("its length cannot be").into());
        }
        if self.buffer.len() < length + 1 {
            self.buffer.reserve(length + 1 - self.buffer.len());
            return Ok(None);
        }
        let mut message = self.buffer.split_to(length + 1).freeze();
        message.advance(5);
        Ok(Some((kind, message)))
    }

    /// Asks the server, and waits for its answer.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Vec<Answer>, WireError> {
        let mut bytes = BytesMut::new();
        frontend::query(sql, &mut bytes)?;
        self.writer.send(&bytes).await?;
        let answer = tokio::time::timeout(ANSWER, self.answer()).await;
        answer.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
    }

    async fn answer(&mut self) -> Result<Vec<Answer>, WireError> {
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            match self.message().await? {
                (b'D', row) => rows.push(session::row(&row)?),
                (b'E', said) => refused = Some(session::refused(&said)),
                // From now on, both talk.
                (b'W', _) => return Ok(rows),
                (b'Z', _) => return refused.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// What the server sends next while it sends its log. Nothing is lost when this is dropped before it is done.
    pub(super) async fn sent(&mut self) -> Result<Bytes, WireError> {
        loop {
            match self.message().await? {
                (b'd', sent) => return Ok(sent),
                (b'E', said) => return Err(session::refused(&said)),
                (b'c' | b'C' | b'Z', _) => {
                    return Err(std::io::Error::other("the server ended the stream").into());
                }
                _ => {}
            }
        }
    }
}
