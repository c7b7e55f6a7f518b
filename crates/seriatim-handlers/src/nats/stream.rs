//! What the settings of a stream mean for the changes in it. Pure.

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use seriatim::source::Blocker;

/// Whether the last message of a subject stays, whatever comes and however long it takes. Another one of the same subject may push
/// older ones out: it is the last then.
pub fn keeps_last(config: &Config) -> bool {
    let drops_old = config.discard == DiscardPolicy::Old && (config.max_messages > 0 || config.max_bytes > 0);
    config.retention == RetentionPolicy::Limits && config.max_age.is_zero() && !drops_old
}

/// The settings under which a stream can lose what it acknowledged.
pub fn risks(config: &Config) -> Vec<Blocker> {
    let (name, mut risks) = (&config.name, Vec::new());
    if config.no_ack {
        risks.push(Blocker {
            what: format!(
                "stream {name} does not acknowledge messages, so nothing sent to it can count as handled"
            ),
            remedy: format!("take `no_ack` off the stream: `nats stream edit {name}`"),
            ..Blocker::default()
        });
    }
    if config.storage == StorageType::Memory && config.num_replicas <= 1 {
        risks.push(Blocker {
            what: format!(
                "stream {name} is in memory alone: a restart of its server loses changes that it acknowledged"
            ),
            remedy: "make it with `--storage file`".to_owned(),
            ..Blocker::default()
        });
    } else if config.num_replicas <= 1 {
        risks.push(Blocker {
            what: format!(
                "stream {name} has one replica, and NATS writes to disk every two minutes unless told otherwise: when its machine fails, changes that it acknowledged can be lost"
            ),
            remedy: "set `sync_interval: always` in the server's `jetstream` section, or give the stream three replicas".to_owned(),
            ..Blocker::default()
        });
    }
    risks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn exactly_once_is_said_only_where_the_last_message_stays() {
        let kept = Config { max_messages: -1, max_bytes: -1, ..Config::default() };
        assert!(keeps_last(&kept));
        assert!(keeps_last(&Config { max_messages_per_subject: 1, ..kept.clone() }));
        assert!(keeps_last(&Config { max_messages: 9, discard: DiscardPolicy::New, ..kept.clone() }));
        assert!(!keeps_last(&Config { max_messages: 9, ..kept.clone() }));
        assert!(!keeps_last(&Config { max_bytes: 9, ..kept.clone() }));
        assert!(!keeps_last(&Config { max_age: Duration::from_secs(9), ..kept.clone() }));
        assert!(!keeps_last(&Config { retention: RetentionPolicy::WorkQueue, ..kept }));
    }

    #[test]
    fn a_stream_that_may_forget_is_a_risk() {
        let risks = |config| super::risks(&config).len();
        assert_eq!(risks(Config { num_replicas: 3, ..Config::default() }), 0);
        assert_eq!(risks(Config { num_replicas: 1, ..Config::default() }), 1);
        assert_eq!(
            risks(Config {
                num_replicas: 1,
                storage: StorageType::Memory,
                no_ack: true,
                ..Config::default()
            }),
            2
        );
    }
}
