//! A connection that is nobody else's.

use std::future::poll_fn;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How many notifications wait for their reader; one that finds no room only says once more that there is news.
const WAITING: usize = 64;

/// A connection that is nobody else's: what it listens to, and what it has locked, is its owner's until it is dropped.
pub struct Dedicated {
    client: Client,
    notices: mpsc::Receiver<String>,
}

impl Dedicated {
    pub(super) async fn open(config: &Config, tls: MakeRustlsConnect) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(tls).await?;
        let (sender, notices) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            // Ends when the client is dropped or the connection breaks; either way the sender goes with it.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(note) = message {
                    drop(sender.try_send(note.payload().to_owned()));
                }
            }
        });
        Ok(Dedicated { client, notices })
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The connection, for a transaction.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Waits for a notification of a channel that this connection listens to and returns what it says.
    /// `None` when the connection is lost.
    pub async fn notified(&mut self) -> Option<String> {
        self.notices.recv().await
    }
}
