//! What `status` shows, as JSON and for people.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use seriatim::source::{Blocker, Lag};
use seriatim::store::{ParkedFailure, ParkedObject};
use seriatim::{Epoch, FeedName, HostName, Partition, Position};

use crate::output::{BAD, FAINT, GOOD, PLAIN, Style, TITLE, Table, WARN, styled};
use crate::setup::Guarantee;

/// At most so many parked objects are named.
const SHOWN: usize = 10;

/// All that `status` knows.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub feeds: Vec<FeedStatus>,
    pub hosts: Vec<HostStatus>,
}

/// One feed that the store knows. What only the config could tell is `None` when the feed is not in it.
#[derive(Debug, Serialize)]
pub struct FeedStatus {
    pub name: FeedName,
    pub capture: Option<&'static str>,
    pub guarantee: Option<Guarantee>,
    pub partitions: Vec<PartitionStatus>,
    pub parked: usize,
    /// For people only: the contract's JSON has the number.
    #[serde(skip)]
    pub parked_objects: Vec<ParkedStatus>,
    pub blocked_by: Vec<Obstacle>,
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

/// What holds a feed back.
#[derive(Debug, Serialize)]
pub struct Obstacle {
    pub what: String,
    pub remedy: String,
}

impl From<Blocker> for Obstacle {
    fn from(blocker: Blocker) -> Self {
        Obstacle { what: blocker.what, remedy: blocker.remedy }
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

    /// Tables for people.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.feeds.is_empty() && self.hosts.is_empty() {
            return writeln!(out, "nothing has run yet: `seriatim run` starts");
        }
        for feed in &self.feeds {
            feed.write(out)?;
        }
        self.write_hosts(out)?;
        out.flush()
    }

    fn write_hosts(&self, out: &mut impl Write) -> io::Result<()> {
        if self.hosts.is_empty() {
            return writeln!(out, "{}", styled(WARN, "no host is running"));
        }
        let mut table = Table::titled(["host", "leases", "seen at"]);
        for host in &self.hosts {
            let cells = [host.name.to_string(), host.leases.to_string(), format!("{:.0}", host.seen_at)];
            table.row(cells.map(|cell| (PLAIN, cell)));
        }
        table.write(out)
    }
}

impl FeedStatus {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let capture = self.capture.unwrap_or("not in the config");
        let guarantee = self.guarantee.map_or("", Guarantee::as_str);
        writeln!(out, "{}  {capture}  {guarantee}", styled(TITLE, format_args!("feed {}", self.name)))?;
        for obstacle in &self.blocked_by {
            writeln!(out, "  {} {}; {}", styled(BAD, "blocked by"), obstacle.what, obstacle.remedy)?;
        }
        self.write_parked(out)?;
        if let Some(queue) = &self.queue {
            return queue.write(&self.partitions, out);
        }
        let mut table = Table::titled(["partition", "owner", "epoch", "lag", "position"]);
        for partition in &self.partitions {
            table.row(partition.cells());
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_parked(&self, out: &mut impl Write) -> io::Result<()> {
        for parked in self.parked_objects.iter().take(SHOWN) {
            let ParkedStatus { key, waiting, attempts, error } = parked;
            writeln!(
                out,
                "  {} {key}: {waiting} waiting, after {attempts} attempts: {error}",
                styled(BAD, "parked")
            )?;
        }
        match self.parked.saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(out, "  {} {more} more", styled(BAD, "parked")),
        }
    }
}

impl QueueStatus {
    fn write(&self, partitions: &[PartitionStatus], out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::titled(["waiting", "objects", "workers"]);
        let workers: Vec<&str> = self.workers.iter().map(HostName::as_str).collect();
        let workers = match workers.is_empty() {
            true => (WARN, "nobody".to_owned()),
            false => (PLAIN, workers.join(", ")),
        };
        let lag = partitions.first().map(|partition| partition.lag.clone()).unwrap_or_default();
        table.row([lag.cell(), (PLAIN, self.objects.to_string()), workers]);
        table.write(out)?;
        writeln!(out)
    }
}

impl PartitionStatus {
    fn cells(&self) -> [(Style, String); 5] {
        let owner = match &self.owner {
            Some(owner) => (PLAIN, owner.to_string()),
            None => (WARN, "nobody".to_owned()),
        };
        [
            (PLAIN, self.partition.to_string()),
            owner,
            (FAINT, self.epoch.to_string()),
            self.lag.cell(),
            (FAINT, self.position.to_string()),
        ]
    }
}

impl LagStatus {
    fn cell(&self) -> (Style, String) {
        match (self.changes, self.seconds) {
            (Some(0), _) => (GOOD, "none".to_owned()),
            (Some(changes), Some(seconds)) => (PLAIN, format!("{changes} ({seconds:.1} s)")),
            (Some(changes), None) => (PLAIN, changes.to_string()),
            (None, Some(seconds)) => (PLAIN, format!("{seconds:.1} s")),
            (None, None) => (WARN, "unknown".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
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
            parked_objects: vec![ParkedStatus {
                key: r#"{"id":7}"#.to_owned(),
                waiting: 2,
                attempts: 5,
                error: "no".to_owned(),
            }],
            blocked_by: vec![],
            queue: None,
        };
        let seen_at = "2026-11-15T08:00:00Z".parse().unwrap();
        Report {
            feeds: vec![feed],
            hosts: vec![HostStatus { name: HostName::new("a").unwrap(), leases: 1, seen_at }],
        }
    }

    #[test]
    fn the_json_is_that_of_the_contract() {
        let expected = concat!(
            r#"{"feeds":[{"name":"totals","capture":"journal","guarantee":"exactly-once","#,
            r#""partitions":[{"partition":0,"owner":"a","epoch":2,"position":"17","lag":{"changes":3,"seconds":null}}],"#,
            r#""parked":1,"blocked_by":[]}],"hosts":[{"name":"a","leases":1,"seen_at":"2026-11-15T08:00:00Z"}]}"#
        );
        assert_eq!(report().to_json(), expected);
        assert_eq!(Report::default().to_json(), r#"{"feeds":[],"hosts":[]}"#);
    }

    #[test]
    fn people_get_tables() {
        let mut plain = anstream::StripStream::new(Vec::new());
        report().write(&mut plain).unwrap();
        let text = String::from_utf8(plain.into_inner()).unwrap();
        let expected = "\
feed totals  journal  exactly-once
  parked {\"id\":7}: 2 waiting, after 5 attempts: no
partition  owner  epoch  lag  position
0          a      2      3    17

host  leases  seen at
a     1       2026-11-15T08:00:00Z
";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_unknown_lag_is_never_shown_as_none() {
        assert_eq!(LagStatus::default().cell().1, "unknown");
    }
}
