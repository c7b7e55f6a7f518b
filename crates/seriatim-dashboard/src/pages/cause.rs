//! Why a feed does not move: one line of causes, from the feed over partitions and objects to the target.

use super::view::{Feed, Host, LeaseLine, Parked, counted, when};

/// So many partitions are named.
const NAMED: usize = 8;

/// One link of the line.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where: `feed`, `partition`, `object` or `target`.
    pub place: &'static str,
    pub what: String,
    pub since: Option<String>,
    pub remedy: String,
    /// It stands because of this.
    pub holds: bool,
}

impl Cause {
    fn new(place: &'static str, what: impl Into<String>, remedy: &str) -> Self {
        Cause { place, what: what.into(), since: None, remedy: remedy.to_owned(), holds: true }
    }

    fn fine(place: &'static str, what: impl Into<String>) -> Self {
        Cause { holds: false, ..Cause::new(place, what, "") }
    }
}

/// The whole line: each place, whether it holds the feed back or not.
pub fn line(feed: &Feed, hosts: &[Host], leases: &[LeaseLine], oldest: Option<&Parked>) -> Vec<Cause> {
    let mut line: Vec<Cause> = feed.blocked_by.iter().map(obstacle).collect();
    if line.is_empty() {
        line.push(Cause::fine("feed", "nothing blocks the feed or its source"));
    }
    line.extend(partitions(feed, hosts, leases));
    line.push(objects(feed, oldest));
    line
}

fn obstacle(by: &super::view::Obstacle) -> Cause {
    // Hosts tell what keeps them: a target that is away is the most frequent of it.
    let place = if by.what.starts_with("host ") { "target" } else { "feed" };
    Cause { since: by.since.as_deref().map(when), ..Cause::new(place, by.what.clone(), &by.remedy) }
}

fn partitions(feed: &Feed, hosts: &[Host], leases: &[LeaseLine]) -> Vec<Cause> {
    if feed.is_queue() {
        return vec![Cause::fine("partition", "a queue has none: any worker takes its objects")];
    }
    if hosts.is_empty() {
        let remedy = "start one with `seriatim run`";
        return vec![Cause::new("partition", "no host is running, so nobody handles any partition", remedy)];
    }
    let orphans: Vec<u32> =
        feed.partitions.iter().filter(|one| one.owner.is_none()).map(|one| one.partition).collect();
    let wanted: Vec<&LeaseLine> = leases.iter().filter(|lease| lease.wanted_by.is_some()).collect();
    let mut causes = Vec::new();
    if !orphans.is_empty() {
        let what =
            format!("{} without an owner: {}", counted(orphans.len() as u64, "partition"), named(&orphans));
        let remedy = "a host takes them within seconds, if one runs this feed; see the page of hosts";
        causes.push(Cause::new("partition", what, remedy));
    }
    for lease in wanted.into_iter().take(NAMED) {
        let (owner, to) =
            (lease.owner.as_deref().unwrap_or("nobody"), lease.wanted_by.as_deref().unwrap_or_default());
        let what = format!("partition {} is handed over from {owner} to {to}", lease.partition);
        causes.push(Cause::new("partition", what, "wait: its owner ends what it has begun first"));
    }
    if causes.is_empty() {
        causes.push(Cause::fine("partition", format!("all {} are owned", feed.partitions.len())));
    }
    causes
}

fn named(partitions: &[u32]) -> String {
    let names: Vec<String> = partitions.iter().take(NAMED).map(u32::to_string).collect();
    let more = if partitions.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn objects(feed: &Feed, oldest: Option<&Parked>) -> Cause {
    match (feed.parked, oldest) {
        (0, _) => Cause::fine("object", "none is parked"),
        (_, None) => Cause::new("object", format!("{} parked", feed.parked_objects()), "see what failed"),
        (_, Some(oldest)) => Cause {
            since: Some(when(&oldest.since)),
            ..Cause::new(
                "object",
                format!(
                    "{} parked, such as {}: {}. Their later changes wait behind them, all others go on",
                    feed.parked_objects(),
                    oldest.key_text(),
                    oldest.error
                ),
                "mend the cause, then retry: the head first, its tail follows in order",
            )
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_line_goes_from_the_feed_to_the_object_and_names_what_holds() {
        let feed: Feed = from_value(json!({
            "name": "orders", "parked": 2,
            "partitions": [{"partition": 0, "owner": "a"}, {"partition": 1, "owner": null}],
            "blocked_by": [{"what": "it is paused", "remedy": "resume it", "since": "2026-11-16T08:00:00.123Z"}],
        }))
        .unwrap();
        let host: Host = from_value(json!({"name": "a"})).unwrap();
        let parked: Parked = from_value(json!({
            "feed": "orders", "key": {"id": 7}, "waiting": 2, "attempts": 5, "error": "no", "since": "x",
        }))
        .unwrap();
        let causes = line(&feed, &[host], &[], Some(&parked));
        let told: Vec<_> = causes.iter().map(|cause| (cause.place, cause.holds)).collect();
        assert_eq!(told, [("feed", true), ("partition", true), ("object", true)]);
        assert_eq!(causes[0].since.as_deref(), Some("2026-11-16 08:00:00"));
        assert!(causes[1].what.contains("without an owner: 1"), "{causes:?}");
        assert!(causes[2].what.contains(r#"such as {"id":7}: no"#), "{causes:?}");
        let nobody = line(&feed, &[], &[], None);
        assert!(nobody[1].what.starts_with("no host is running"));
    }

    #[test]
    fn a_feed_that_moves_has_nothing_that_holds_it() {
        let feed: Feed =
            from_value(json!({"name": "orders", "partitions": [{"partition": 0, "owner": "a"}]})).unwrap();
        let host: Host = from_value(json!({"name": "a"})).unwrap();
        assert!(line(&feed, &[host], &[], None).iter().all(|cause| !cause.holds));
    }
}
