//! What `status` shows, as JSON. `people` has it in words.

use jiff::Timestamp;
use serde::Serialize;
use seriatim::host::CheckpointPolicy;
use seriatim::source::{Blocker, Lag, Slot};
use seriatim::store::{ParkedFailure, ParkedObject, Paused, Trouble};
use seriatim::{Epoch, FeedName, HostName, Partition, Position};

use crate::config::{CaptureKind, FeedConfig, HandlerConfig};
use crate::setup::Guarantee;

/// All that `status` knows.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub feeds: Vec<FeedStatus>,
    pub hosts: Vec<HostStatus>,
    /// What wants attention and holds no feed back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Obstacle>,
}

/// One feed that the store knows. What only the config could tell is `None` when the feed is not in it.
#[derive(Debug, Serialize)]
pub struct FeedStatus {
    pub name: FeedName,
    pub capture: Option<&'static str>,
    pub guarantee: Option<Guarantee>,
    pub partitions: Vec<PartitionStatus>,
    pub parked: usize,
    pub parked_changes: u64,
    /// There are more of both than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parked_more: bool,
    /// For people only: the contract's JSON has the number.
    #[serde(skip)]
    pub parked_objects: Vec<ParkedStatus>,
    pub paused: bool,
    pub blocked_by: Vec<Obstacle>,
    /// The slot of the server's log that it is read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// At most so much comes again after a crash; `None` where that has no bound, or is not known.
    pub comes_again: Option<ComesAgain>,
    /// For people: a queue has objects instead of partitions.
    #[serde(skip)]
    pub queue: Option<QueueStatus>,
}

/// What a queue has.
#[derive(Debug)]
pub struct QueueStatus {
    pub objects: u64,
    pub workers: Vec<HostName>,
}

/// One partition.
#[derive(Debug, Serialize)]
pub struct PartitionStatus {
    pub partition: Partition,
    pub owner: Option<HostName>,
    pub epoch: Epoch,
    pub position: Position,
    pub lag: LagStatus,
}

/// How far behind a partition is; `None` is unknown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LagStatus {
    pub changes: Option<u64>,
    pub seconds: Option<f64>,
}

impl From<Lag> for LagStatus {
    fn from(lag: Lag) -> Self {
        LagStatus { changes: lag.changes, seconds: lag.seconds }
    }
}

/// What may be handled again after a crash of a host, of each of its partitions: what was in flight, and what was done since the
/// last checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComesAgain {
    /// Changes that calls of the handler had been given, and had not ended.
    pub in_flight: u64,
    /// Changes that were done and not checkpointed, where they are counted.
    pub changes: u64,
    /// How long before the crash the last checkpoint was at most, where that is timed.
    pub seconds: f64,
}

impl ComesAgain {
    /// What the settings of a feed allow. `None` where the handler itself says what is done, and for windows, of which everything above
    /// the checkpoint comes again.
    pub fn of(feed: &FeedConfig, guarantee: Guarantee) -> Option<Self> {
        let HandlerConfig { batch, concurrency, .. } = feed.handler;
        let in_flight = (batch as u64).saturating_mul(concurrency as u64);
        let nothing = ComesAgain { in_flight: 0, changes: 0, seconds: 0.0 };
        match (guarantee, feed.checkpoint) {
            (Guarantee::ExactlyOnce | Guarantee::Deduplicated, _) => Some(nothing),
            _ if feed.capture == CaptureKind::Window => None,
            (_, CheckpointPolicy::Manual) => None,
            (_, CheckpointPolicy::Batch) => Some(ComesAgain { in_flight, ..nothing }),
            (_, CheckpointPolicy::Changes(changes)) => Some(ComesAgain { in_flight, changes, ..nothing }),
            (_, CheckpointPolicy::Time(time)) => {
                Some(ComesAgain { in_flight, seconds: time.as_secs_f64(), ..nothing })
            }
        }
    }
}

/// What holds a feed back, or wants attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Obstacle {
    pub what: String,
    pub remedy: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
}

impl Obstacle {
    /// A feed that is paused.
    pub fn pause(paused: &Paused) -> Self {
        Obstacle {
            what: "it is paused".to_owned(),
            remedy: format!("`seriatim resume {}` lets it go on", paused.feed),
            since: Some(paused.since),
        }
    }

    /// What keeps a host from going on.
    pub fn trouble(host: &HostName, trouble: &Trouble) -> Self {
        Obstacle {
            what: format!("host {host}: {}", trouble.what),
            remedy: trouble.remedy.clone(),
            since: trouble.since,
        }
    }
}

impl From<Blocker> for Obstacle {
    fn from(blocker: Blocker) -> Self {
        Obstacle { what: blocker.what, remedy: blocker.remedy, since: blocker.since }
    }
}

/// One object that could not be handled.
#[derive(Debug)]
pub struct ParkedStatus {
    pub key: String,
    pub waiting: u64,
    pub attempts: u32,
    pub error: String,
}

impl From<ParkedObject> for ParkedStatus {
    fn from(parked: ParkedObject) -> Self {
        let ParkedFailure { error, attempts, .. } = parked.failure;
        ParkedStatus { key: parked.key.to_string(), waiting: parked.waiting, attempts, error }
    }
}

/// One host.
#[derive(Debug, Serialize)]
pub struct HostStatus {
    pub name: HostName,
    pub leases: usize,
    pub seen_at: Timestamp,
}

impl Report {
    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and texts always serialize")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn report() -> Report {
        let partition = PartitionStatus {
            partition: Partition(0),
            owner: Some(HostName::new("a").unwrap()),
            epoch: Epoch(2),
            position: Position::number(17),
            lag: LagStatus { changes: Some(3), seconds: None },
        };
        let feed = FeedStatus {
            name: FeedName::new("totals").unwrap(),
            capture: Some("journal"),
            guarantee: Some(Guarantee::ExactlyOnce),
            partitions: vec![partition],
            parked: 1,
            parked_changes: 2,
            parked_more: false,
            parked_objects: vec![ParkedStatus {
                key: r#"{"id":7}"#.to_owned(),
                waiting: 2,
                attempts: 5,
                error: "no".to_owned(),
            }],
            paused: false,
            blocked_by: vec![],
            slot: None,
            comes_again: Some(ComesAgain { in_flight: 0, changes: 0, seconds: 0.0 }),
            queue: None,
        };
        let seen_at = "2026-11-15T08:00:00Z".parse().unwrap();
        Report {
            feeds: vec![feed],
            hosts: vec![HostStatus { name: HostName::new("a").unwrap(), leases: 1, seen_at }],
            notes: vec![],
        }
    }

    #[test]
    fn the_json_is_that_of_the_contract() {
        let expected = concat!(
            r#"{"feeds":[{"name":"totals","capture":"journal","guarantee":"exactly-once","#,
            r#""partitions":[{"partition":0,"owner":"a","epoch":2,"position":"17","lag":{"changes":3,"seconds":null}}],"#,
            r#""parked":1,"parked_changes":2,"paused":false,"blocked_by":[],"#,
            r#""comes_again":{"in_flight":0,"changes":0,"seconds":0.0}}],"#,
            r#""hosts":[{"name":"a","leases":1,"seen_at":"2026-11-15T08:00:00Z"}]}"#
        );
        assert_eq!(report().to_json(), expected);
        assert_eq!(Report::default().to_json(), r#"{"feeds":[],"hosts":[]}"#);
    }

    #[test]
    fn an_obstacle_says_since_when() {
        let paused =
            Paused { feed: FeedName::new("totals").unwrap(), since: "2026-11-15T08:00:00Z".parse().unwrap() };
        assert_eq!(
            serde_json::to_string(&Obstacle::pause(&paused)).unwrap(),
            r#"{"what":"it is paused","remedy":"`seriatim resume totals` lets it go on","since":"2026-11-15T08:00:00Z"}"#
        );
    }
}
