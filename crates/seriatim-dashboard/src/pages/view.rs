//! What the pages show, worked out from the API's own answers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use seriatim::store::group_of;

use crate::history::Point;

/// The status, as the API gives it.
#[derive(Debug, Default, Deserialize)]
pub struct Status {
    /// The feeds.
    #[serde(default)]
    pub feeds: Vec<Feed>,
    /// The hosts.
    #[serde(default)]
    pub hosts: Vec<Host>,
}

/// One feed.
#[derive(Debug, Default, Deserialize)]
pub struct Feed {
    pub name: String,
    pub capture: Option<String>,
    pub guarantee: Option<String>,
    #[serde(default)]
    pub partitions: Vec<Partition>,
    #[serde(default)]
    pub parked: u64,
    #[serde(default)]
    pub parked_more: bool,
    #[serde(default)]
    pub paused: bool,
    #[serde(default)]
    pub blocked_by: Vec<Obstacle>,
}

/// One partition.
#[derive(Debug, Default, Deserialize)]
pub struct Partition {
    pub partition: u32,
    pub owner: Option<String>,
    #[serde(default)]
    pub epoch: u64,
    #[serde(default)]
    pub position: String,
    #[serde(default)]
    pub lag: Lag,
}

/// How far behind; `None` is unknown, and never shown as zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub struct Lag {
    pub changes: Option<u64>,
    pub seconds: Option<f64>,
}

/// What holds a feed back.
#[derive(Debug, Deserialize)]
pub struct Obstacle {
    pub what: String,
    #[serde(default)]
    pub remedy: String,
    pub since: Option<String>,
}

/// One host.
#[derive(Debug, Default, Deserialize)]
pub struct Host {
    pub name: String,
    #[serde(default)]
    pub leases: u64,
    #[serde(default)]
    pub seen_at: String,
}

/// One lease.
#[derive(Debug, Default, Deserialize)]
pub struct LeaseLine {
    pub feed: String,
    pub partition: u32,
    pub owner: Option<String>,
    #[serde(default)]
    pub epoch: u64,
    pub wanted_by: Option<String>,
    pub renewed_at: Option<String>,
    pub expire: Option<f64>,
}

impl LeaseLine {
    /// How long ago its owner gave its last sign of life, by this machine's clock.
    pub fn renewed(&self, now: Timestamp) -> String {
        self.renewed_at.as_deref().map_or_else(|| "-".to_owned(), |at| ago(at, now))
    }

    /// After how long without one others take it.
    pub fn expires(&self) -> String {
        self.expire.map_or_else(|| "-".to_owned(), |expire| format!("{expire} s"))
    }
}

/// A signal that is remembered.
#[derive(Debug, Default, Deserialize)]
pub struct Signal {
    pub processor: String,
    pub id: String,
    pub state: String,
    #[serde(default)]
    pub started_at: String,
    pub completed_at: Option<String>,
    #[serde(default)]
    pub attempt: u64,
}

impl Signal {
    /// As a name of a style.
    pub fn class(&self) -> &'static str {
        match self.state.as_str() {
            "unknown" => "bad",
            "running" => "warn",
            _ => "good",
        }
    }
}

/// One parked object.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Parked {
    pub feed: String,
    pub key: Value,
    pub waiting: u64,
    pub attempts: u32,
    pub error: String,
    pub since: String,
    pub next_try: Option<String>,
}

/// Objects that failed in one way.
#[derive(Debug, Serialize)]
pub struct Group {
    pub feed: String,
    /// The kind of their errors: [`seriatim::store::group_of`].
    pub group: String,
    /// One of the errors.
    pub error: String,
    pub objects: u64,
    pub changes: u64,
    pub since: String,
    /// The first ones of them.
    pub first: Vec<Parked>,
}

/// So many objects of a group are shown with it.
const FIRST: usize = 5;

impl Status {
    /// What somebody has to look at, with a place to go.
    pub fn attention(&self) -> Vec<Attention> {
        let mut all = Vec::new();
        if self.hosts.is_empty() && !self.feeds.is_empty() {
            all.push(Attention::new("", "no host is running", "start one with `seriatim run`"));
        }
        for feed in &self.feeds {
            all.extend(feed.blocked_by.iter().map(|by| Attention::new(&feed.name, &by.what, &by.remedy)));
            if feed.parked > 0 {
                let what = format!("{} parked", feed.parked_objects());
                all.push(Attention::new(&feed.name, &what, "see what failed, mend it, and retry"));
            }
            let orphans = feed.partitions.iter().filter(|partition| partition.owner.is_none()).count();
            if orphans > 0 && !self.hosts.is_empty() {
                let what = format!("{} without an owner", counted(orphans as u64, "partition"));
                all.push(Attention::new(
                    &feed.name,
                    &what,
                    "a host takes them within seconds, if one runs this feed",
                ));
            }
        }
        all
    }
}

/// One thing to look at.
#[derive(Debug, PartialEq, Eq)]
pub struct Attention {
    pub feed: String,
    pub what: String,
    pub remedy: String,
}

impl Attention {
    fn new(feed: &str, what: &str, remedy: &str) -> Self {
        Attention { feed: feed.to_owned(), what: what.to_owned(), remedy: remedy.to_owned() }
    }
}

impl Feed {
    /// The lag of the whole feed: unknown as soon as that of one partition is.
    pub fn lag(&self) -> Lag {
        let all = || self.partitions.iter().map(|partition| partition.lag);
        let none = Lag { changes: None, seconds: None };
        if self.partitions.is_empty() {
            return none;
        }
        Lag {
            changes: all().map(|lag| lag.changes).sum(),
            seconds: all().map(|lag| lag.seconds).try_fold(0.0, |most: f64, one| Some(most.max(one?))),
        }
    }

    /// Whether it is a queue.
    pub fn is_queue(&self) -> bool {
        self.capture.as_deref() == Some("queue")
    }

    /// How many objects are parked, for people.
    pub fn parked_objects(&self) -> String {
        let counted = counted(self.parked, "object");
        if self.parked_more { format!("more than {counted}") } else { counted }
    }

    /// The same in one word.
    pub fn parked_number(&self) -> String {
        if self.parked_more { format!("more than {}", self.parked) } else { self.parked.to_string() }
    }

    /// How many partitions have an owner.
    pub fn owned(&self) -> usize {
        self.partitions.iter().filter(|partition| partition.owner.is_some()).count()
    }

    /// In one word: what a reader without colours sees.
    pub fn state(&self) -> &'static str {
        match (self.blocked_by.is_empty(), self.parked, self.lag().changes) {
            (false, ..) => "blocked",
            (true, 1.., _) => "parked",
            (true, 0, Some(0)) => "up to date",
            (true, 0, Some(_)) => "behind",
            (true, 0, None) => "unknown",
        }
    }

    /// The same as a name of a style.
    pub fn class(&self) -> &'static str {
        match self.state() {
            "blocked" | "parked" => "bad",
            "up to date" => "good",
            _ => "warn",
        }
    }
}

impl Lag {
    /// For people.
    pub fn text(&self) -> String {
        match (self.changes, self.seconds) {
            (None, _) => "unknown".to_owned(),
            (Some(0), _) => "0".to_owned(),
            (Some(changes), None) => counted(changes, "change"),
            (Some(changes), Some(seconds)) => format!("{}, {seconds:.1} s", counted(changes, "change")),
        }
    }
}

impl Parked {
    /// The key as text.
    pub fn key_text(&self) -> String {
        self.key.to_string()
    }

    /// Since when, for people.
    pub fn since_text(&self) -> String {
        when(&self.since)
    }

    /// When it is tried again by itself, for people.
    pub fn next_text(&self) -> String {
        self.next_try.as_deref().map_or_else(|| "when asked".to_owned(), when)
    }

    /// How much waits, for people.
    pub fn waits(&self) -> String {
        counted(self.waiting, "change")
    }

    /// As part of an address.
    pub fn key_query(&self) -> String {
        encoded(&self.key.to_string())
    }
}

impl Group {
    /// How large it is, for people.
    pub fn size(&self) -> String {
        format!("{}, {} waiting", counted(self.objects, "object"), counted(self.changes, "change"))
    }

    /// The kind as part of an address.
    pub fn query(&self) -> String {
        encoded(&self.group)
    }

    /// How many are not shown with it.
    pub fn others(&self) -> u64 {
        self.objects.saturating_sub(self.first.len() as u64)
    }
}

/// Parked objects by feed and kind of error, the largest group first.
pub fn grouped(parked: Vec<Parked>) -> Vec<Group> {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for object in parked {
        let kind = group_of(&object.error).trim().to_owned();
        let group = groups.entry((object.feed.clone(), kind.clone())).or_insert_with(|| Group {
            feed: object.feed.clone(),
            group: kind,
            error: object.error.clone(),
            objects: 0,
            changes: 0,
            since: object.since.clone(),
            first: Vec::new(),
        });
        group.objects += 1;
        group.changes += object.waiting;
        if group.first.len() < FIRST {
            group.first.push(object);
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.objects));
    groups
}

/// A moment for people, in UTC; what is no moment as it is.
pub fn when(at: &str) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => at.to_owned(),
    }
}

/// How long ago that was.
pub fn ago(at: &str, now: Timestamp) -> String {
    let Ok(at) = at.parse::<Timestamp>() else { return at.to_owned() };
    match now.duration_since(at).as_secs() {
        ..=0 => "just now".to_owned(),
        seconds @ 1..120 => format!("{seconds} s ago"),
        seconds @ 120..7200 => format!("{} min ago", seconds / 60),
        seconds => format!("{} h ago", seconds / 3600),
    }
}

/// A line through points, as the page draws it: 100 wide and 30 high.
pub struct Spark {
    pub points: String,
    /// In words, for whoever does not see it.
    pub words: String,
}

/// Draws what is known of a past; nothing where less than two points are.
pub fn spark(past: &[Point]) -> Option<Spark> {
    let known: Vec<(Timestamp, u64)> =
        past.iter().filter_map(|point| Some((point.at, point.changes?))).collect();
    let (first, last) = (known.first()?, known.last()?);
    let whole = last.0.duration_since(first.0).as_secs_f64();
    if known.len() < 2 || whole <= 0.0 {
        return None;
    }
    let most = known.iter().map(|(_, changes)| *changes).max().unwrap_or_default();
    let place = |(at, changes): &(Timestamp, u64)| {
        let x = 100.0 * at.duration_since(first.0).as_secs_f64() / whole;
        let y = 29.0 - 28.0 * (*changes as f64) / (most.max(1) as f64);
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = known.iter().map(place).collect();
    let words = format!(
        "lag since {} UTC: at most {}, now {}",
        when(&first.0.to_string()),
        counted(most, "change"),
        last.1
    );
    Some(Spark { points: points.join(" "), words })
}

/// `1 object`, `2 objects`.
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Text as part of an address.
pub fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn feed(lags: &[Option<u64>]) -> Feed {
        let partitions =
            lags.iter().map(|changes| json!({"partition": 0, "lag": {"changes": changes, "seconds": 1.5}}));
        serde_json::from_value(json!({"name": "orders", "partitions": partitions.collect::<Vec<_>>()}))
            .unwrap()
    }

    #[test]
    fn lag_that_is_not_known_is_never_shown_as_zero() {
        assert_eq!(feed(&[Some(0), None]).lag().text(), "unknown");
        assert_eq!(feed(&[]).lag().text(), "unknown");
        assert_eq!(feed(&[Some(0), Some(0)]).lag().text(), "0");
        assert_eq!(feed(&[Some(1), Some(2)]).lag().text(), "3 changes, 1.5 s");
    }

    #[test]
    fn what_has_to_be_looked_at_is_named_with_what_to_do() {
        let status: Status = serde_json::from_value(json!({
            "feeds": [{"name": "orders", "parked": 1, "blocked_by": [{"what": "pid 7", "remedy": "end it"}]}],
            "hosts": [],
        }))
        .unwrap();
        let attention: Vec<String> = status.attention().into_iter().map(|one| one.what).collect();
        assert_eq!(attention, ["no host is running", "pid 7", "1 object parked"]);
    }

    #[test]
    fn failures_are_grouped_and_the_largest_group_comes_first() {
        let parked = |id: u64, error: &str| Parked {
            feed: "orders".into(),
            key: json!({"id": id}),
            waiting: 2,
            attempts: 5,
            error: error.into(),
            since: String::new(),
            next_try: None,
        };
        let groups = grouped(vec![parked(1, "rare"), parked(2, "no customer 2"), parked(3, "no customer 3")]);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.group.as_str(), group.objects, group.changes)).collect();
        assert_eq!(shown, [("no customer #", 2, 4), ("rare", 1, 2)]);
    }

    #[test]
    fn a_past_is_drawn_from_what_is_known() {
        let point = |second, changes| Point { at: Timestamp::from_second(second).unwrap(), changes };
        assert!(spark(&[point(0, Some(1)), point(5, None)]).is_none(), "one point is no line");
        let drawn = spark(&[point(0, Some(0)), point(5, None), point(10, Some(7))]).unwrap();
        assert_eq!(drawn.points, "0.0,29.0 100.0,1.0");
        assert!(drawn.words.ends_with("at most 7 changes, now 7"), "{}", drawn.words);
    }

    #[test]
    fn moments_are_short_and_what_is_none_is_left() {
        assert_eq!(when("2026-11-18T20:43:49.784Z"), "2026-11-18 20:43:49");
        assert_eq!(when("never"), "never");
        let now = "2026-11-18T20:45:00Z".parse().unwrap();
        assert_eq!(ago("2026-11-18T20:44:57.5Z", now), "2 s ago");
        assert_eq!(ago("2026-11-18T20:50:00Z", now), "just now", "clocks differ");
    }

    #[test]
    fn a_key_is_encoded_for_an_address() {
        assert_eq!(encoded(r#"{"id":"ä/&"}"#), "%7B%22id%22%3A%22%C3%A4%2F%26%22%7D");
    }
}
