//! A connection to Redis that comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, ServerErrorKind, Value};
use tokio::sync::Mutex;

use crate::error::RedisError;
use crate::script::Script;

/// How long an answer may take: scripts that look through many keys take a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A connection to Redis, shared by clones. It comes back by itself, and follows a Cluster's slots.
#[derive(Clone)]
pub struct Redis {
    client: Client,
    link: Link,
    /// A connection for blocking waits, when nobody waits.
    waiting: Arc<Mutex<Option<Blocking>>>,
}

#[derive(Clone)]
enum Link {
    Single(ConnectionManager),
    Cluster(ClusterConnection),
}

enum Blocking {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Redis {
    /// Connects to `redis://[user:password@]host[:port][/db]`, or `rediss://…` for TLS. Any node of a Cluster will do.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        // TLS panics when a program has two sets of ciphers and has not chosen. One that has chosen keeps its choice.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let client = client(url)?;
        let doing = || format!("connecting to Redis at {}", client.get_connection_info().addr());
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_number_of_retries(2);
        let mut single = ConnectionManager::new_with_config(client.clone(), config)
            .await
            .map_err(|cause| RedisError::new(doing(), cause))?;
        let info: String = redis::cmd("INFO")
            .arg("cluster")
            .query_async(&mut single)
            .await
            .map_err(|cause| RedisError::new(doing(), cause))?;
        let link = match info.contains("cluster_enabled:1") {
            false => Link::Single(single),
            true => Link::Cluster(
                cluster(&client, ANSWER_WITHIN).await.map_err(|cause| RedisError::new(doing(), cause))?,
            ),
        };
        Ok(Redis { client, link, waiting: Arc::default() })
    }

    /// Whether this is a URL that [`Redis::connect`] understands. Connects to nothing.
    pub fn check_url(url: &str) -> Result<(), RedisError> {
        client(url).map(drop)
    }

    /// Whether it is a Cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.link, Link::Cluster(_))
    }

    /// Sends a command.
    pub async fn query(&self, command: &Cmd) -> redis::RedisResult<Value> {
        match &self.link {
            Link::Single(link) => command.query_async(&mut link.clone()).await,
            Link::Cluster(link) => command.query_async(&mut link.clone()).await,
        }
    }

    /// Runs a script in the slot of `key`. `doing` is for the error.
    pub async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        key: &str,
        arguments: &[&[u8]],
    ) -> Result<Value, RedisError> {
        let answer = match self.query(&script.by_hash(key, arguments)).await {
            Err(cause) if cause.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.query(&script.whole(key, arguments)).await
            }
            answer => answer,
        };
        answer.map_err(|cause| RedisError::new(doing, cause))
    }

    /// Runs a command that may block for `timeout`, on a connection of its own. If nobody waits for the answer any more, the
    /// connection is closed, and the server forgets about it.
    pub(crate) async fn block(&self, command: &Cmd, timeout: Duration) -> Result<(), RedisError> {
        let idle = self.waiting.lock().await.take();
        let failed = |cause| RedisError::new("waiting for news from Redis", cause);
        let mut link = match idle {
            Some(link) => link,
            None => self.blocking().await.map_err(failed)?,
        };
        let answer = async {
            match &mut link {
                Blocking::Single(link) => command.query_async::<Value>(link).await,
                Blocking::Cluster(link) => command.query_async::<Value>(link).await,
            }
        };
        match tokio::time::timeout(timeout + ANSWER_WITHIN, answer).await {
            Ok(answer) => answer.map_err(failed)?,
            Err(_) => return Err(RedisError::for_now("waiting for news from Redis", "it does not answer")),
        };
        *self.waiting.lock().await = Some(link);
        Ok(())
    }

    async fn blocking(&self) -> redis::RedisResult<Blocking> {
        Ok(match &self.link {
            Link::Single(_) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_WITHIN))
                    .set_response_timeout(None);
                let link = self.client.get_multiplexed_async_connection_with_config(&config).await?;
                Blocking::Single(link)
            }
            Link::Cluster(_) => Blocking::Cluster(cluster(&self.client, Duration::from_secs(3600)).await?),
        })
    }
}

/// Reads a URL. The error shows nothing of it: there may be a password in it.
fn client(url: &str) -> Result<Client, RedisError> {
    Client::open(url).map_err(|cause| {
        // What comes after the dash may repeat parts of the URL.
        let said = cause.to_string();
        RedisError::url(said.split(" - ").next().unwrap_or_default())
    })
}

async fn cluster(client: &Client, answer_within: Duration) -> redis::RedisResult<ClusterConnection> {
    let node = client.get_connection_info().clone();
    ClusterClientBuilder::new([node])
        .connection_timeout(CONNECT_WITHIN)
        .response_timeout(answer_within)
        .build()?
        .get_async_connection()
        .await
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the whole URL: there may be a password in it.
        write!(f, "Redis({})", self.client.get_connection_info().addr())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(url: &str) -> String {
        Redis::check_url(url).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn a_url_that_leads_nowhere_is_told_why() {
        for good in [
            "redis://h",
            "redis://:word@h:6380/2",
            "rediss://u:w%40rd@h/?protocol=resp3",
            "redis+unix:///run/redis.sock",
        ] {
            assert_eq!(refused(good), "", "{good}");
        }
        assert!(refused("redis://h/second").contains("database number"), "{}", refused("redis://h/second"));
        assert!(refused("redis://").contains("hostname"));
        let error = Redis::check_url("redis://u:hunter2/@h").unwrap_err();
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("%XX")), "{error:?}");
    }

    proptest! {
        #[test]
        fn any_url_is_understood_or_answered_without_its_password(
            place in r"\PC{0,40}|[a-z0-9.:,%\[\]]{0,12}/?[a-z0-9%]{0,6}(\?[a-z_=%&0-9]{0,30})?(#[a-z]{0,8})?",
            scheme in "rediss?|valkeys?|redis\\+unix|unix|[a-z]{0,6}",
        ) {
            if let Err(error) = Redis::check_url(&place) {
                prop_assert!(!error.to_string().is_empty());
            }
            for url in [
                format!("{scheme}://u:hunter2@{place}"),
                format!("{scheme}://:hunter2{place}@h"),
                format!("{scheme}://{place}hunter2@h"),
                format!("{scheme}://h/{place}?protocol=hunter2"),
            ] {
                if let Err(error) = Redis::check_url(&url) {
                    let told = format!("{error} {error:?} {:?}", error.remedy());
                    prop_assert!(!told.contains("hunter2"), "{}", told);
                }
            }
        }
    }
}
