//! A connection that is nobody else's.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How many notifications wait for their reader. Of those that find no room only that is known, and one without words stands for them.
const WAITING: usize = 64;

/// A notification.
pub(crate) struct Heard {
    pub channel: String,
    pub payload: String,
    /// Others before it were missed; then it has no payload.
    pub missed: bool,
}

/// A connection that is nobody else's: what it listens to, and what it has locked, is its owner's until it is dropped.
pub struct Dedicated {
    client: Client,
    notices: mpsc::Receiver<(String, String)>,
    missed: Arc<AtomicBool>,
}

impl Dedicated {
    pub(super) async fn open(config: &Config, tls: MakeRustlsConnect) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(tls).await?;
        let (sender, notices) = mpsc::channel(WAITING);
        let missed = Arc::new(AtomicBool::new(false));
        let misses = Arc::clone(&missed);
        tokio::spawn(async move {
            // Ends when the client is dropped or the connection breaks; either way the sender goes with it.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(note) = message {
                    let words = (note.channel().to_owned(), note.payload().to_owned());
                    if sender.try_send(words).is_err() {
                        misses.store(true, Ordering::Release);
                    }
                }
            }
        });
        Ok(Dedicated { client, notices, missed })
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The connection, for a transaction.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether the connection is lost.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for a notification of a channel that this connection listens to and returns what it says.
    /// `None` when the connection is lost.
    pub async fn notified(&mut self) -> Option<String> {
        self.heard().await.map(|heard| heard.payload)
    }

    /// The same, with the channel.
    pub(crate) async fn heard(&mut self) -> Option<Heard> {
        let (channel, payload) = self.notices.recv().await?;
        let missed = self.missed.swap(false, Ordering::AcqRel);
        Some(Heard { channel, payload: if missed { String::new() } else { payload }, missed })
    }
}
