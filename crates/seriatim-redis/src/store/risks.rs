//! Settings of the server under which a store can lose what it was told.

use redis::{Value, cmd};
use seriatim::source::Blocker;

use super::RedisStore;
use crate::script::string;

/// What the server says about itself, as far as it lets us ask.
#[derive(Debug, Default)]
struct Server {
    policy: Option<String>,
    appends: Option<bool>,
    saves: Option<bool>,
}

impl RedisStore {
    /// What about the server's settings can make it lose checkpoints, with the remedy. A server that does not tell has no risks
    /// here.
    pub async fn risks(&self) -> Vec<Blocker> {
        let server = Server {
            policy: self.told("memory", "maxmemory_policy").await,
            appends: self.told("persistence", "aof_enabled").await.map(|enabled| enabled == "1"),
            saves: self.saves().await,
        };
        risks(&server)
    }

    /// A line of INFO.
    async fn told(&self, section: &str, name: &str) -> Option<String> {
        let told = self.redis.query(cmd("INFO").arg(section)).await.ok()?;
        let told = String::from_utf8(string(told)?).ok()?;
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    /// Whether the server writes snapshots. Managed servers do not let one ask.
    async fn saves(&self) -> Option<bool> {
        let Value::Array(told) = self.redis.query(cmd("CONFIG").arg("GET").arg("save")).await.ok()? else {
            return None;
        };
        string(told.into_iter().nth(1)?).map(|when| !when.is_empty())
    }
}

fn risks(server: &Server) -> Vec<Blocker> {
    let mut risks = Vec::new();
    if let Some(policy) = server.policy.as_ref().filter(|policy| policy.starts_with("allkeys-")) {
        risks.push(Blocker {
            what: format!(
                "Redis may evict checkpoints and leases when its memory is full (maxmemory-policy {policy})"
            ),
            remedy: "set `maxmemory-policy noeviction`".to_owned(),
            ..Blocker::default()
        });
    }
    if server.appends == Some(false) && server.saves == Some(false) {
        risks.push(Blocker {
            what: "Redis keeps nothing on disk: a restart loses all checkpoints, and the feeds stop"
                .to_owned(),
            remedy: "set `appendonly yes`, with `appendfsync always` to lose nothing at all".to_owned(),
            ..Blocker::default()
        });
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(policy: &str, appends: bool, saves: Option<bool>) -> usize {
        risks(&Server { policy: Some(policy.to_owned()), appends: Some(appends), saves }).len()
    }

    #[test]
    fn a_server_that_evicts_or_forgets_is_a_risk() {
        assert_eq!(found("noeviction", true, Some(false)), 0);
        assert_eq!(found("noeviction", false, Some(true)), 0);
        assert_eq!(found("noeviction", false, Some(false)), 1);
        assert_eq!(found("allkeys-lru", false, Some(false)), 2);
        // No key of a store has an expiry.
        assert_eq!(found("volatile-lru", true, Some(false)), 0);
        assert_eq!(found("noeviction", false, None), 0, "a server that does not tell");
    }
}
