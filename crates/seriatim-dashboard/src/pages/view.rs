//! What the pages show, worked out from the API's own answers.

use serde::Deserialize;
use serde_json::Value;

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

/// One parked object.
#[derive(Debug, Deserialize)]
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
#[derive(Debug)]
pub struct Group {
    pub feed: String,
    pub error: String,
    pub objects: Vec<Parked>,
    pub changes: u64,
}

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
                let what = format!("{} parked", counted(feed.parked, "object"));
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
        format!(
            "{}, {} waiting",
            counted(self.objects.len() as u64, "object"),
            counted(self.changes, "change")
        )
    }
}

/// Parked objects by feed and error, the largest group first.
pub fn grouped(parked: Vec<Parked>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for object in parked {
        let same = |group: &&mut Group| group.feed == object.feed && group.error == object.error;
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.changes += object.waiting;
                group.objects.push(object);
            }
            None => groups.push(Group {
                feed: object.feed.clone(),
                error: object.error.clone(),
                changes: object.waiting,
                objects: vec![object],
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.objects.len()));
    groups
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
        let groups = grouped(vec![parked(1, "rare"), parked(2, "common"), parked(3, "common")]);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.error.as_str(), group.objects.len(), group.changes)).collect();
        assert_eq!(shown, [("common", 2, 4), ("rare", 1, 2)]);
    }

    #[test]
    fn a_key_is_encoded_for_an_address() {
        assert_eq!(encoded(r#"{"id":"ä/&"}"#), "%7B%22id%22%3A%22%C3%A4%2F%26%22%7D");
    }
}
