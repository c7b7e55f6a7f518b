//! What `status` shows, for people: one line for each feed, and below it what wants attention.

use std::io::{self, Write};

use seriatim::HostName;

use super::report::{
    ComesAgain, FeedStatus, LagStatus, Obstacle, ParkedStatus, PartitionStatus, QueueStatus, Report,
};
use crate::output::{BAD, FAINT, GOOD, PLAIN, Style, TITLE, Table, WARN, styled};
use crate::setup::Guarantee;

/// At most so many parked objects of a feed are named.
const SHOWN: usize = 3;

/// How much is shown of each feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One line.
    Feeds,
    /// Every partition, too.
    Partitions,
}

impl Report {
    /// Tables for people.
    pub fn write(&self, detail: Detail, out: &mut impl Write) -> io::Result<()> {
        if self.feeds.is_empty() && self.hosts.is_empty() {
            writeln!(out, "nothing has run yet: `seriatim run` starts")?;
        } else {
            self.write_feeds(out)?;
            if detail == Detail::Partitions {
                self.feeds.iter().try_for_each(|feed| feed.write_partitions(out))?;
            }
            self.write_hosts(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{} {}; {}", styled(WARN, "note"), note.what, note.remedy)?;
        }
        out.flush()
    }

    fn write_feeds(&self, out: &mut impl Write) -> io::Result<()> {
        if self.feeds.is_empty() {
            return Ok(());
        }
        let mut table = Table::titled(["feed", "capture", "guarantee", "owned", "lag", "parked", "state"]);
        self.feeds.iter().for_each(|feed| table.row(feed.cells()));
        table.write(out)?;
        for feed in &self.feeds {
            feed.write_obstacles(out)?;
            feed.write_slot(out)?;
            feed.write_parked(out)?;
        }
        writeln!(out)
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
    /// Feed, capture, guarantee, owned, lag, parked, state.
    pub fn cells(&self) -> [(Style, String); 7] {
        let parked = match self.parked {
            0 => (FAINT, "0".to_owned()),
            objects if self.parked_more => (BAD, format!("more than {objects}")),
            objects => (BAD, format!("{objects} ({} changes)", self.parked_changes)),
        };
        [
            (TITLE, self.name.to_string()),
            (PLAIN, self.capture.unwrap_or("-").to_owned()),
            (PLAIN, self.guarantee.map_or("-", Guarantee::as_str).to_owned()),
            self.owned(),
            self.lag().cell(),
            parked,
            self.state(),
        ]
    }

    /// How many of its partitions have an owner; who works on a queue.
    fn owned(&self) -> (Style, String) {
        if let Some(queue) = &self.queue {
            return match queue.workers.len() {
                0 => (WARN, "nobody".to_owned()),
                1 => (PLAIN, "1 worker".to_owned()),
                workers => (PLAIN, format!("{workers} workers")),
            };
        }
        let owned = self.partitions.iter().filter(|partition| partition.owner.is_some()).count();
        let style = if owned == self.partitions.len() { PLAIN } else { WARN };
        (style, format!("{owned}/{}", self.partitions.len()))
    }

    fn state(&self) -> (Style, String) {
        let nobody = self.partitions.iter().all(|partition| partition.owner.is_none());
        let works = self.queue.as_ref().is_some_and(|queue| !queue.workers.is_empty());
        match () {
            () if self.paused => (WARN, "paused".to_owned()),
            () if self.capture.is_none() => (WARN, "not in the config".to_owned()),
            () if !self.blocked_by.is_empty() => (BAD, "blocked".to_owned()),
            () if nobody && !works => (WARN, "not running".to_owned()),
            () => (GOOD, "running".to_owned()),
        }
    }

    /// That of all partitions together.
    fn lag(&self) -> LagStatus {
        let lags = || self.partitions.iter().map(|partition| &partition.lag);
        LagStatus {
            changes: lags().map(|lag| lag.changes).sum(),
            seconds: lags().map(|lag| lag.seconds).try_fold(0.0, |most: f64, next| Some(most.max(next?))),
        }
    }

    fn write_obstacles(&self, out: &mut impl Write) -> io::Result<()> {
        for Obstacle { what, remedy, since } in &self.blocked_by {
            let since = since.map_or_else(String::new, |since| format!(" since {since:.0}"));
            let words = styled(BAD, "blocked by");
            writeln!(out, "  {} {words} {what}{since}; {remedy}", self.name)?;
        }
        Ok(())
    }

    fn write_slot(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(slot) = &self.slot else { return Ok(()) };
        let read = if slot.active { styled(PLAIN, "is read") } else { styled(WARN, "is not read") };
        let confirmed = slot.confirmed.as_deref().unwrap_or("nowhere");
        let retained = slot.retained_bytes.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
        let (feed, name) = (&self.name, &slot.name);
        writeln!(out, "  {feed} slot {name} {read}, confirmed {confirmed}, retained bytes {retained}")
    }

    fn write_parked(&self, out: &mut impl Write) -> io::Result<()> {
        let word = styled(BAD, "parked");
        for parked in self.parked_objects.iter().take(SHOWN) {
            let ParkedStatus { key, waiting, attempts, error } = parked;
            let name = &self.name;
            writeln!(out, "  {name} {word} {key}: {waiting} waiting, after {attempts} attempts: {error}")?;
        }
        match self.parked.saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(out, "  {0} {word} {more} more: `seriatim parked list {0}`", self.name),
        }
    }

    fn write_partitions(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", styled(TITLE, format_args!("feed {}", self.name)))?;
        if let Some(queue) = &self.queue {
            return queue.write(&self.partitions, out);
        }
        let mut table = Table::titled(["partition", "owner", "epoch", "lag", "position"]);
        self.partitions.iter().for_each(|partition| table.row(partition.cells()));
        table.write(out)?;
        if let Some(again) = &self.comes_again {
            writeln!(out, "{}", styled(FAINT, again.sentence()))?;
        }
        writeln!(out)
    }
}

impl ComesAgain {
    /// In words.
    pub fn sentence(&self) -> String {
        let ComesAgain { in_flight, changes, seconds } = self;
        let since = match (changes, seconds) {
            (0, 0.0) if *in_flight == 0 => return "after a crash, nothing comes again".to_owned(),
            (0, 0.0) => String::new(),
            (0, seconds) => format!(", and those done in the last {:.0} ms", seconds * 1000.0),
            (changes, _) => format!(", and the last {changes} that were done"),
        };
        format!(
            "after a crash, at most {in_flight} changes of each partition come again that were in flight{since}"
        )
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
    /// Partition, owner, epoch, lag, position.
    pub fn cells(&self) -> [(Style, String); 5] {
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
    use super::super::report::tests::report;
    use super::*;

    fn shown(report: &Report, detail: Detail) -> String {
        let mut plain = anstream::StripStream::new(Vec::new());
        report.write(detail, &mut plain).unwrap();
        String::from_utf8(plain.into_inner()).unwrap()
    }

    #[test]
    fn a_feed_is_one_line_and_what_wants_attention() {
        let expected = "\
feed    capture  guarantee     owned  lag  parked         state
totals  journal  exactly-once  1/1    3    1 (2 changes)  running
  totals parked {\"id\":7}: 2 waiting, after 5 attempts: no

host  leases  seen at
a     1       2026-11-15T08:00:00Z
";
        assert_eq!(shown(&report(), Detail::Feeds), expected);
    }

    #[test]
    fn partitions_are_shown_when_they_are_asked_for() {
        let expected = "\
feed totals
partition  owner  epoch  lag  position
0          a      2      3    17
after a crash, nothing comes again
";
        let text = shown(&report(), Detail::Partitions);
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn an_unknown_lag_is_never_shown_as_none() {
        assert_eq!(LagStatus::default().cell().1, "unknown");
        let mut report = report();
        report.feeds[0].partitions[0].lag = LagStatus::default();
        assert!(shown(&report, Detail::Feeds).contains("1/1    unknown"));
    }

    #[test]
    fn what_comes_again_is_bounded_in_words() {
        let again = ComesAgain { in_flight: 800, changes: 0, seconds: 0.1 };
        let words = "after a crash, at most 800 changes of each partition come again that were in flight, and those done in the last \
                     100 ms";
        assert_eq!(again.sentence(), words);
    }
}
