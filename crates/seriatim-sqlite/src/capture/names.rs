//! The names of what a capture puts into the user's file. All of them begin with `seriatim_`.

use serde::{Deserialize, Serialize};
use seriatim::backend::Kind;

use super::table::Table;

/// How triggers are made. Older ones are made anew when a feed opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Edition(u32);

impl Edition {
    /// That of triggers which say nothing about it.
    pub(super) const FIRST: Edition = Edition(0);
    /// They foresee defaults that depend on the time, and mark what they write with NULL in its key.
    pub(super) const NOW: Edition = Edition(5);
    /// Journals with programs behind views. Since then, what is put aside can be settled.
    pub(super) const FOURTH: Edition = Edition(4);

    /// Journals that put states aside; logs that note a change after the write.
    const SECOND: Edition = Edition(2);
    /// Logs that note it before.
    const THIRD: Edition = Edition(3);
}

/// What a trigger waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    BeforeInsert,
    BeforeUpdate,
    Insert,
    Update,
    Delete,
    /// Journal.
    BeforeDelete,
    /// Journal: these six are for when something is under way already.
    NestedBeforeInsert,
    NestedBeforeUpdate,
    NestedBeforeDelete,
    NestedInsert,
    NestedUpdate,
    NestedDelete,
    /// Journal: these six are for the commonest of those cases.
    AsideBeforeInsert,
    AsideBeforeUpdate,
    AsideBeforeDelete,
    AsideInsert,
    AsideUpdate,
    AsideDelete,
    /// Log: an insert that may be ignored, become an update, or replace other rows.
    CollidingInsert,
    /// Log: an insert for which SQLite chooses the key, or inside such a one.
    KeylessInsert,
    /// Log: an update that may be ignored or replace other rows.
    CollidingUpdate,
    /// Log: an update that makes another object of the row.
    BeforeUpdateOfKey,
    /// Log: the same, once it has happened.
    UpdateOfKey,
    /// Older logs: an insert, while rows are put aside that it may have replaced.
    ReplacingInsert,
    /// Older logs: an update, while rows are put aside that it may have replaced.
    ReplacingUpdate,
    /// Older logs: an update of a row that is put aside itself, as an upsert's is.
    FollowingUpdate,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Event::BeforeInsert => "before_insert",
            Event::BeforeUpdate => "before_update",
            Event::Insert => "after_insert",
            Event::Update => "after_update",
            Event::Delete => "after_delete",
            Event::BeforeDelete => "before_delete",
            Event::NestedBeforeInsert => "nested_before_insert",
            Event::NestedBeforeUpdate => "nested_before_update",
            Event::NestedBeforeDelete => "nested_before_delete",
            Event::NestedInsert => "nested_after_insert",
            Event::NestedUpdate => "nested_after_update",
            Event::NestedDelete => "nested_after_delete",
            Event::AsideBeforeInsert => "aside_before_insert",
            Event::AsideBeforeUpdate => "aside_before_update",
            Event::AsideBeforeDelete => "aside_before_delete",
            Event::AsideInsert => "aside_after_insert",
            Event::AsideUpdate => "aside_after_update",
            Event::AsideDelete => "aside_after_delete",
            Event::CollidingInsert => "before_insert_colliding",
            Event::KeylessInsert => "before_insert_keyless",
            Event::CollidingUpdate => "before_update_colliding",
            Event::BeforeUpdateOfKey => "before_update_of_key",
            Event::UpdateOfKey => "after_update_of_key",
            Event::ReplacingInsert => "after_insert_replacing",
            Event::ReplacingUpdate => "after_update_replacing",
            Event::FollowingUpdate => "after_update_following",
        }
    }

    fn when(self) -> &'static str {
        match self {
            Event::BeforeInsert
            | Event::NestedBeforeInsert
            | Event::AsideBeforeInsert
            | Event::CollidingInsert
            | Event::KeylessInsert => "before insert",
            Event::BeforeUpdate
            | Event::NestedBeforeUpdate
            | Event::AsideBeforeUpdate
            | Event::CollidingUpdate
            | Event::BeforeUpdateOfKey => "before update",
            Event::BeforeDelete | Event::NestedBeforeDelete | Event::AsideBeforeDelete => "before delete",
            Event::Insert | Event::ReplacingInsert | Event::NestedInsert | Event::AsideInsert => {
                "after insert"
            }
            Event::Update
            | Event::UpdateOfKey
            | Event::ReplacingUpdate
            | Event::FollowingUpdate
            | Event::NestedUpdate
            | Event::AsideUpdate => "after update",
            Event::Delete | Event::NestedDelete | Event::AsideDelete => "after delete",
        }
    }
}

const COMMON: [Event; 5] =
    [Event::BeforeInsert, Event::BeforeUpdate, Event::Insert, Event::Update, Event::Delete];
const OF_A_JOURNAL: [Event; 13] = [
    Event::AsideBeforeInsert,
    Event::AsideBeforeUpdate,
    Event::AsideBeforeDelete,
    Event::AsideInsert,
    Event::AsideUpdate,
    Event::AsideDelete,
    Event::BeforeDelete,
    Event::NestedBeforeInsert,
    Event::NestedBeforeUpdate,
    Event::NestedBeforeDelete,
    Event::NestedInsert,
    Event::NestedUpdate,
    Event::NestedDelete,
];
const OF_AN_OLDER_JOURNAL: [Event; 7] = [
    Event::BeforeDelete,
    Event::NestedBeforeInsert,
    Event::NestedBeforeUpdate,
    Event::NestedBeforeDelete,
    Event::NestedInsert,
    Event::NestedUpdate,
    Event::NestedDelete,
];
const OF_A_LOG: [Event; 5] = [
    Event::BeforeDelete,
    Event::CollidingInsert,
    Event::CollidingUpdate,
    Event::BeforeUpdateOfKey,
    Event::UpdateOfKey,
];
const OF_AN_OLDER_LOG: [Event; 4] =
    [Event::UpdateOfKey, Event::ReplacingInsert, Event::ReplacingUpdate, Event::FollowingUpdate];

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

    /// Log: the table of inserts under way without a key.
    pub(super) fn keyless(&self) -> String {
        format!("seriatim_keyless_{}", self.capture)
    }

    /// Journal: the views whose only use is the programs behind them, in the order in which a change takes them.
    pub(super) fn views(&self) -> [String; 6] {
        ["open", "begin", "kept", "ended", "told", "due"]
            .map(|name| format!("seriatim_{name}_{}", self.capture))
    }

    /// Journal: the view that puts the open row aside.
    pub(super) fn open(&self) -> String {
        format!("seriatim_open_{}", self.capture)
    }

    /// Journal: the view for the beginning of a change.
    pub(super) fn begin(&self) -> String {
        format!("seriatim_begin_{}", self.capture)
    }

    /// Journal: the view for when the rows are put aside that a change may touch.
    pub(super) fn kept(&self) -> String {
        format!("seriatim_kept_{}", self.capture)
    }

    /// Journal: the view for the end of a change.
    pub(super) fn ended(&self) -> String {
        format!("seriatim_ended_{}", self.capture)
    }

    /// Journal: the view for when the rows were looked at that a change touched.
    pub(super) fn told(&self) -> String {
        format!("seriatim_told_{}", self.capture)
    }

    /// Journal: the view that journals what is due.
    pub(super) fn due(&self) -> String {
        format!("seriatim_due_{}", self.capture)
    }

    /// The events that the capture has triggers for, if they are of this edition.
    pub(super) fn events(&self, edition: Edition) -> impl Iterator<Item = Event> {
        let more = match (self.kind, edition) {
            (Kind::Log, Edition::FIRST | Edition::SECOND) => OF_AN_OLDER_LOG.as_slice(),
            (Kind::Log, _) => &OF_A_LOG,
            (Kind::Journal, Edition::FIRST) => &[],
            (Kind::Journal, Edition::SECOND | Edition::THIRD) => &OF_AN_OLDER_JOURNAL,
            (Kind::Journal, _) => &OF_A_JOURNAL,
        };
        COMMON.into_iter().chain(more.iter().copied())
    }

    /// The name of a trigger.
    pub(super) fn trigger_name(&self, event: Event) -> String {
        format!("seriatim_capture_{}_{}", self.capture, event.name())
    }

    /// The SQL that makes a trigger.
    pub(super) fn trigger(&self, event: Event, table: &Table, condition: &str, body: &str) -> String {
        let name = self.trigger_name(event);
        let when = if condition.is_empty() { String::new() } else { format!("\nwhen {condition}") };
        format!("create trigger {name} {} on {}{when}\nbegin\n{body}end;\n", event.when(), table.quoted())
    }

    /// The SQL that takes the triggers out.
    pub(super) fn drop_triggers(&self) -> String {
        let all = [COMMON.as_slice(), &OF_A_JOURNAL, &OF_A_LOG, &[Event::KeylessInsert], &OF_AN_OLDER_LOG];
        let drop = |event: &Event| format!("drop trigger if exists {};\n", self.trigger_name(*event));
        let views = self.views().map(|view| format!("drop view if exists {view};\n"));
        all.into_iter().flatten().map(drop).chain(views).collect()
    }

    /// The SQL that takes the tables out, with all that is in them.
    pub(super) fn drop_tables(&self) -> String {
        format!("drop table if exists {};\n{}", self.changes(), self.drop_aside())
    }

    /// The SQL that takes out the tables of what is put aside.
    pub(super) fn drop_aside(&self) -> String {
        format!("drop table if exists {};\ndrop table if exists {};\n", self.replaced(), self.keyless())
    }
}
