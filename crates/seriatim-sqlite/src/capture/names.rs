//! The names of what a capture puts into the user's file. All of them begin with `seriatim_`.

use super::table::Table;

/// Which capture it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every change, with the row before and after.
    Journal,
    /// The latest state of each key.
    Log,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::Log => "log",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Kind::Journal, Kind::Log].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a trigger waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    BeforeInsert,
    BeforeUpdate,
    Insert,
    Update,
    Delete,
}

impl Event {
    /// All of them.
    pub(super) const ALL: [Event; 5] =
        [Event::BeforeInsert, Event::BeforeUpdate, Event::Insert, Event::Update, Event::Delete];

    fn when(self) -> &'static str {
        match self {
            Event::BeforeInsert => "before insert",
            Event::BeforeUpdate => "before update",
            Event::Insert => "after insert",
            Event::Update => "after update",
            Event::Delete => "after delete",
        }
    }
}

/// The tables and triggers of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Objects {
    pub kind: Kind,
    pub capture: i64,
}

impl Objects {
    /// The journal or the log.
    pub(super) fn changes(&self) -> String {
        format!("seriatim_{}_{}", self.kind.as_str(), self.capture)
    }

    /// The table of rows that a write may replace.
    pub(super) fn replaced(&self) -> String {
        format!("seriatim_replaced_{}", self.capture)
    }

    /// The name of a trigger.
    pub(super) fn trigger_name(&self, event: Event) -> String {
        format!("seriatim_capture_{}_{}", self.capture, event.when().replace(' ', "_"))
    }

    /// The SQL that makes a trigger.
    pub(super) fn trigger(&self, event: Event, table: &Table, condition: &str, body: &str) -> String {
        let name = self.trigger_name(event);
        let when = if condition.is_empty() { String::new() } else { format!("\nwhen {condition}") };
        format!("create trigger {name} {} on {}{when}\nbegin\n{body}end;\n", event.when(), table.quoted())
    }

    /// The SQL that takes the triggers out.
    pub(super) fn drop_triggers(&self) -> String {
        Event::ALL.map(|event| format!("drop trigger if exists {};\n", self.trigger_name(event))).concat()
    }

    /// The SQL that takes the tables out, with all that is in them.
    pub(super) fn drop_tables(&self) -> String {
        format!("drop table if exists {};\ndrop table if exists {};\n", self.changes(), self.replaced())
    }
}
