//! The text that Prometheus reads. What is not known is left out: it is never zero.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use seriatim::host::BOUNDS;

use super::snapshot::{Counts, FeedSnapshot, PartitionSnapshot};

/// Its media type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A counter of one feed on this host: its name, what it counts, and where it stands.
type Counter = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counter; 8] = [
    ("changes_handled", "Changes that this host has handled", |counts| counts.handled),
    ("attempts_failed", "Calls of the handler that failed", |counts| counts.failed),
    ("changes_parked", "Changes that failed for good and whose objects this host has parked", |counts| {
        counts.parked
    }),
    ("changes_skipped", "Changes that were dropped after their last attempt, as asked for", |counts| {
        counts.skipped
    }),
    (
        "changes_redelivered",
        "Changes given to the handler once more, after a call with them had failed",
        |counts| counts.redelivered,
    ),
    ("checkpoints", "Checkpoints that this host has written", |counts| counts.checkpoints),
    ("leases_acquired", "Leases that this host has taken", |counts| counts.acquired),
    ("leases_lost", "Leases that this host has lost: neither handed over nor given back", |counts| {
        counts.lost
    }),
];

type Label<'a> = [(&'a str, String)];

#[derive(Debug)]
struct Feeds(Vec<FeedSnapshot>);

/// All metrics, as text.
pub fn text(feeds: Vec<FeedSnapshot>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("seriatim");
    registry.register_collector(Box::new(Feeds(feeds)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Feeds {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, count) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for feed in &self.0 {
                let none: Option<&Exemplar<NoLabelSet, u64>> = None;
                labelled(&mut metric, &[feed.label()], |mut metric| {
                    metric.encode_counter(&count(&feed.counts), none)
                })?;
            }
        }
        self.latency(&mut encoder)?;
        let changes = |partition: &PartitionSnapshot| partition.changes.map(|changes| changes as f64);
        self.gauge(&mut encoder, "lag_changes", "Changes committed and not yet checkpointed", None, changes)?;
        let help = "Age of the oldest change that is not yet checkpointed, by the source's clock";
        self.gauge(&mut encoder, "lag", help, Some(&Unit::Seconds), |partition| partition.seconds)?;
        let owned = |partition: &PartitionSnapshot| Some(f64::from(u8::from(partition.owned)));
        self.feed_gauges(&mut encoder)?;
        self.gauge(&mut encoder, "partition_owned", "Whether any host owns the partition", None, owned)
    }
}

/// A gauge of one feed, whichever host looks: its name, what it counts, and what it is, where that is known.
type FeedGauge = (&'static str, &'static str, fn(&FeedSnapshot) -> Option<f64>);

const FEED_GAUGES: [FeedGauge; 3] = [
    ("parked_objects", "Objects that are parked now, whichever host parked them", |feed| {
        feed.parked.map(|parked| parked.objects as f64)
    }),
    ("parked_changes", "Changes that wait in parked objects now", |feed| {
        feed.parked.map(|parked| parked.changes as f64)
    }),
    ("blocked", "Whether anything holds the feed back now: a pause, its source, its target", |feed| {
        feed.blocked.map(|blocked| f64::from(u8::from(blocked)))
    }),
];

impl Feeds {
    fn feed_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in FEED_GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for feed in &self.0 {
                let Some(value) = value(feed) else { continue };
                labelled(&mut metric, &[feed.label()], |mut metric| metric.encode_gauge(&value))?;
            }
        }
        Ok(())
    }

    fn latency(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "From a change's commit, by the source's clock, until it was handled, by this host's";
        let unit = Some(&Unit::Seconds);
        let mut metric = encoder.encode_descriptor("commit_to_handled", help, unit, MetricType::Histogram)?;
        for feed in &self.0 {
            let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(feed.latency.buckets).collect();
            let (sum, count) = (feed.latency.sum, feed.latency.buckets.iter().sum());
            labelled(&mut metric, &[feed.label()], |mut metric| {
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            })?;
        }
        Ok(())
    }

    fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&PartitionSnapshot) -> Option<f64>,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for feed in &self.0 {
            for partition in &feed.partitions {
                let Some(value) = value(partition) else { continue };
                let labels = [feed.label(), ("partition", partition.partition.to_string())];
                labelled(&mut metric, &labels, |mut metric| metric.encode_gauge(&value))?;
            }
        }
        Ok(())
    }
}

impl FeedSnapshot {
    fn label(&self) -> (&'static str, String) {
        ("feed", self.name.to_string())
    }
}

fn labelled(
    metric: &mut MetricEncoder<'_>,
    labels: &Label<'_>,
    encode: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    encode(metric.encode_family(&labels)?)
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::ParkedNow;
    use super::*;
    use seriatim::host::Latency;
    use seriatim::{FeedName, Partition};

    fn snapshot() -> FeedSnapshot {
        let counts = Counts {
            handled: 5,
            failed: 4,
            parked: 3,
            skipped: 2,
            redelivered: 1,
            checkpoints: 6,
            acquired: 8,
            lost: 7,
        };
        let mut latency = Latency { buckets: [0; BOUNDS.len() + 1], sum: 601.5 };
        (latency.buckets[3], latency.buckets[15]) = (2, 1);
        let partition = |partition, changes, seconds| PartitionSnapshot {
            partition: Partition(partition),
            owned: partition == 0,
            changes,
            seconds,
        };
        let partitions =
            vec![partition(0, Some(0), Some(0.0)), partition(1, Some(9), None), partition(2, None, None)];
        let parked = Some(ParkedNow { objects: 2, changes: 7 });
        let name = FeedName::new("totals").unwrap();
        FeedSnapshot { name, counts, latency, parked, blocked: Some(true), partitions }
    }

    #[test]
    fn every_metric_has_its_documented_name_and_the_unknown_is_left_out() {
        let text = text(vec![snapshot()]).unwrap();
        for line in [
            r#"seriatim_changes_handled_total{feed="totals"} 5"#,
            r#"seriatim_attempts_failed_total{feed="totals"} 4"#,
            r#"seriatim_changes_parked_total{feed="totals"} 3"#,
            r#"seriatim_changes_skipped_total{feed="totals"} 2"#,
            r#"seriatim_changes_redelivered_total{feed="totals"} 1"#,
            r#"seriatim_checkpoints_total{feed="totals"} 6"#,
            r#"seriatim_leases_acquired_total{feed="totals"} 8"#,
            r#"seriatim_leases_lost_total{feed="totals"} 7"#,
            r#"seriatim_commit_to_handled_seconds_bucket{le="0.005",feed="totals"} 0"#,
            r#"seriatim_commit_to_handled_seconds_bucket{le="0.01",feed="totals"} 2"#,
            r#"seriatim_commit_to_handled_seconds_bucket{le="600.0",feed="totals"} 2"#,
            r#"seriatim_commit_to_handled_seconds_bucket{le="+Inf",feed="totals"} 3"#,
            r#"seriatim_commit_to_handled_seconds_sum{feed="totals"} 601.5"#,
            r#"seriatim_commit_to_handled_seconds_count{feed="totals"} 3"#,
            r#"seriatim_lag_changes{feed="totals",partition="0"} 0.0"#,
            r#"seriatim_lag_changes{feed="totals",partition="1"} 9.0"#,
            r#"seriatim_lag_seconds{feed="totals",partition="0"} 0.0"#,
            r#"seriatim_partition_owned{feed="totals",partition="1"} 0.0"#,
            r#"seriatim_parked_objects{feed="totals"} 2.0"#,
            r#"seriatim_parked_changes{feed="totals"} 7.0"#,
            r#"seriatim_blocked{feed="totals"} 1.0"#,
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
        assert!(!text.contains(r#"seriatim_lag_changes{feed="totals",partition="2"}"#));
        assert!(!text.contains(r#"seriatim_lag_seconds{feed="totals",partition="1"}"#));
        assert!(text.ends_with("# EOF\n"));
    }
}
