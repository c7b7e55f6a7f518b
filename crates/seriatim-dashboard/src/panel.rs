//! What the API asks, and whom.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers questions and carries actions out: a store with its feeds, or the whole of a config.
///
/// # Promises
/// - Every answer is bounded, whatever the store holds.
/// - Asking changes nothing.
#[async_trait]
pub trait Panel: Send + Sync + 'static {
    /// Feeds and hosts, as `seriatim status --json` shows them.
    async fn status(&self) -> Result<Value, Refusal>;

    /// One object of a feed, by its key as JSON: whether it is parked, and the changes that wait.
    async fn object(&self, feed: &str, key: &Value) -> Result<Value, Refusal>;

    /// Parked objects, each as `seriatim parked list --json` shows it, oldest first.
    async fn parked(&self, query: &ParkedQuery) -> Result<Listed, Refusal>;

    /// How much an action on all that matches would concern: `{"objects", "changes", "more"}`.
    async fn matching(&self, feed: &str, filter: &Filter) -> Result<Value, Refusal>;

    /// Hosts that are not known to be dead.
    async fn hosts(&self) -> Result<Vec<Value>, Refusal>;

    /// Leases, as `seriatim lease list --json` shows them.
    async fn leases(&self) -> Result<Vec<Value>, Refusal>;

    /// The signals of a processor or of all, as `seriatim once list --json` shows them.
    async fn once(&self, processor: Option<&str>) -> Result<Vec<Value>, Refusal>;

    /// Does what somebody asked for, and says what came of it.
    async fn act(&self, action: &Action) -> Result<Value, Refusal>;

    /// Keeps what somebody did.
    async fn keep(&self, done: &Done) -> Result<(), Refusal>;

    /// What was done, latest first, at most so many.
    async fn actions(&self, limit: usize) -> Result<Vec<Done>, Refusal>;
}

/// Which parked objects are asked for.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ParkedQuery {
    /// Of this feed, or of all.
    pub feed: Option<String>,
    /// Whose error has these words.
    pub error: Option<String>,
    /// Whose error is of this kind: [`seriatim::store::group_of`].
    pub group: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// Parked objects with certain errors; all without any condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Whose error has these words.
    pub error: Option<String>,
    /// Whose error is of this kind: [`seriatim::store::group_of`].
    pub group: Option<String>,
}

impl Filter {
    /// Whether it leaves nothing out.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// Its lines.
    pub lines: Vec<Value>,
    /// There are more, or there may be: not everything was looked at.
    pub more: bool,
}

/// The most that a list has.
pub const MOST: usize = 1000;

impl ParkedQuery {
    /// What is left out.
    pub fn filter(&self) -> Filter {
        Filter { error: self.error.clone(), group: self.group.clone() }
    }

    /// At most so many, whatever was asked for.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(100).min(MOST)
    }
}

/// What somebody can ask for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Have a parked object tried again, or all of a feed.
    Retry {
        /// The feed.
        feed: String,
        /// The object's key; all without one.
        key: Option<Value>,
    },
    /// Drop the first change of a parked object, or all that waits.
    Discard {
        /// The feed.
        feed: String,
        /// The object's key.
        key: Value,
        /// All that waits, too.
        tail: bool,
        /// Why: it is kept.
        reason: String,
    },
    /// Have all parked objects tried again that match, however many.
    RetryMatching {
        /// The feed.
        feed: String,
        /// Which ones.
        filter: Filter,
    },
    /// Drop the first change, or all that waits, of all parked objects that match, however many.
    DiscardMatching {
        /// The feed.
        feed: String,
        /// Which ones.
        filter: Filter,
        /// All that waits, too.
        tail: bool,
        /// Why: it is kept.
        reason: String,
    },
    /// Ask a host to take a lease.
    Move {
        /// The feed.
        feed: String,
        /// The partition.
        partition: u32,
        /// The host that is to have it.
        host: String,
    },
    /// Stop handing over the changes of a feed.
    Pause {
        /// The feed.
        feed: String,
    },
    /// Go on with a feed.
    Resume {
        /// The feed.
        feed: String,
    },
    /// Set a feed back.
    Rewind {
        /// The feed.
        feed: String,
        /// `beginning`, `now`, a moment or a position.
        to: String,
    },
}

impl Action {
    /// In one word.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Retry { .. } | Action::RetryMatching { .. } => "retry",
            Action::Discard { .. } | Action::DiscardMatching { .. } => "discard",
            Action::Move { .. } => "move",
            Action::Pause { .. } => "pause",
            Action::Resume { .. } => "resume",
            Action::Rewind { .. } => "rewind",
        }
    }

    /// The feed that it is about.
    pub fn feed(&self) -> &str {
        match self {
            Action::Retry { feed, .. }
            | Action::Discard { feed, .. }
            | Action::RetryMatching { feed, .. }
            | Action::DiscardMatching { feed, .. }
            | Action::Move { feed, .. }
            | Action::Pause { feed }
            | Action::Resume { feed }
            | Action::Rewind { feed, .. } => feed,
        }
    }
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Which action it is: one that is kept again with what came of it is the same.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who, by the name of the token.
    pub by: String,
    /// What: the action's name.
    pub action: String,
    /// To which feed.
    pub feed: String,
    /// The rest of it.
    pub details: Value,
    /// Why, if it was said.
    pub reason: Option<String>,
    /// What came of it.
    pub outcome: String,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of reason.
    pub kind: RefusalKind,
    /// What is wrong.
    pub sentence: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What kind of reason there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It was not asked for properly.
    Bad,
    /// There is no such thing.
    NotFound,
    /// It changed in the meantime, or is busy.
    Conflict,
    /// This panel cannot do it.
    Unsupported,
    /// The store or the source cannot be asked now.
    Unavailable,
}

impl Refusal {
    /// A refusal with this reason.
    pub fn new(kind: RefusalKind, sentence: impl Into<String>) -> Self {
        Refusal { kind, sentence: sentence.into(), remedy: None }
    }

    /// And what to do about it.
    pub fn help(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<seriatim::store::StoreError> for Refusal {
    fn from(error: seriatim::store::StoreError) -> Self {
        match error {
            seriatim::store::StoreError::NeedsAttention { what, remedy } => {
                Refusal::new(RefusalKind::Unavailable, what).help(remedy)
            }
            error => Refusal::new(RefusalKind::Unavailable, error.to_string()),
        }
    }
}
