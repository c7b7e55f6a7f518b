//! Settings of the server under which it can lose entries that it acknowledged.

use seriatim::source::Blocker;
use seriatim_redis::redis::{Value, cmd};
use seriatim_redis::{Redis, string};

/// What the server says about itself, as far as it lets us ask.
#[derive(Debug, Default)]
struct Server {
    appends: Option<String>,
    syncs: Option<String>,
    evicts: Option<String>,
}

/// The risks of this server.
pub async fn of(redis: &Redis) -> Vec<Blocker> {
    risks(&Server {
        appends: asked(redis, "appendonly").await,
        syncs: asked(redis, "appendfsync").await,
        evicts: asked(redis, "maxmemory-policy").await,
    })
}

/// A setting. Managed servers do not let one ask.
async fn asked(redis: &Redis, name: &str) -> Option<String> {
    let told = redis.query(cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    let told = match told {
        Value::Array(told) => told.into_iter().nth(1)?,
        Value::Map(told) => told.into_iter().next()?.1,
        _ => return None,
    };
    String::from_utf8(string(told)?).ok()
}

fn risks(server: &Server) -> Vec<Blocker> {
    let mut risks = Vec::new();
    let is = |setting: &Option<String>, value: &str| setting.as_deref() == Some(value);
    if is(&server.appends, "no") {
        risks.push(Blocker {
            what: "Redis can lose changes of the stream that it acknowledged: it keeps no log of its writes (appendonly no)".to_owned(),
            remedy: "set `appendonly yes` and `appendfsync always`".to_owned(),
            ..Blocker::default()
        });
    } else if server.syncs.is_some() && !is(&server.syncs, "always") {
        let syncs = server.syncs.as_deref().unwrap_or_default();
        risks.push(Blocker {
            what: format!(
                "Redis can lose changes of the stream that it acknowledged, when its machine fails (appendfsync {syncs})"
            ),
            remedy: "set `appendfsync always` to lose nothing at all".to_owned(),
            ..Blocker::default()
        });
    }
    if let Some(policy) = server.evicts.as_ref().filter(|policy| policy.starts_with("allkeys-")) {
        risks.push(Blocker {
            what: format!(
                "Redis may evict the stream or its books when its memory is full (maxmemory-policy {policy})"
            ),
            remedy: "set `maxmemory-policy noeviction`".to_owned(),
            ..Blocker::default()
        });
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(appends: &str, syncs: &str, evicts: &str) -> usize {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        risks(&Server { appends: text(appends), syncs: text(syncs), evicts: text(evicts) }).len()
    }

    #[test]
    fn a_server_that_may_forget_is_a_risk() {
        assert_eq!(found("yes", "always", "noeviction"), 0);
        assert_eq!(found("yes", "everysec", "noeviction"), 1);
        assert_eq!(found("no", "everysec", "noeviction"), 1);
        assert_eq!(found("no", "always", "allkeys-lru"), 2);
        assert_eq!(found("", "", ""), 0, "a server that does not tell");
    }
}
