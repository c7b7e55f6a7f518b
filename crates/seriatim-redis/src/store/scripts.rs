//! The store's scripts.

use crate::script::Script;

/// A script of the store, with what all of them share before it.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../../scripts/store/common.lua"),
            include_str!(concat!("../../scripts/store/", $file))
        ))
    };
}

/// All of them.
pub(super) struct Scripts {
    pub(super) identity: Script,
    pub(super) older: Script,
    pub(super) join: Script,
    pub(super) leave: Script,
    pub(super) ensure: Script,
    pub(super) feeds: Script,
    pub(super) pulse: Script,
    pub(super) view: Script,
    pub(super) acquire: Script,
    pub(super) renew: Script,
    pub(super) request: Script,
    pub(super) release: Script,
    pub(super) checkpoint: Script,
    pub(super) rewind: Script,
    pub(super) parked: Script,
    pub(super) parked_object: Script,
    pub(super) parked_page: Script,
    pub(super) parked_changes: Script,
    pub(super) retry_parked: Script,
    pub(super) discard_parked: Script,
    pub(super) discarded: Script,
    pub(super) reshape: Script,
    pub(super) adopt_parked: Script,
    pub(super) note_action: Script,
    pub(super) actions: Script,
    pub(super) pause: Script,
    pub(super) resume: Script,
    pub(super) paused: Script,
    pub(super) forget: Script,
    pub(super) purge: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            identity: script!("identity.lua"),
            older: script!("older.lua"),
            join: script!("join.lua"),
            leave: script!("leave.lua"),
            ensure: script!("ensure.lua"),
            feeds: script!("feeds.lua"),
            pulse: script!("pulse.lua"),
            view: script!("view.lua"),
            acquire: script!("acquire.lua"),
            renew: script!("renew.lua"),
            request: script!("request.lua"),
            release: script!("release.lua"),
            checkpoint: script!("checkpoint.lua"),
            rewind: script!("rewind.lua"),
            parked: script!("parked.lua"),
            parked_object: script!("parked_object.lua"),
            parked_page: script!("parked_page.lua"),
            parked_changes: script!("parked_changes.lua"),
            retry_parked: script!("retry_parked.lua"),
            discard_parked: script!("discard_parked.lua"),
            discarded: script!("discarded.lua"),
            reshape: script!("reshape.lua"),
            adopt_parked: script!("adopt_parked.lua"),
            note_action: script!("note_action.lua"),
            actions: script!("actions.lua"),
            pause: script!("pause.lua"),
            resume: script!("resume.lua"),
            paused: script!("paused.lua"),
            forget: script!("forget.lua"),
            purge: script!("purge.lua"),
        }
    }
}
