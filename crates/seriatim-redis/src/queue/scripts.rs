//! The queue's scripts.

use crate::script::Script;

/// A script of the queue, with what all of them share before it.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../../scripts/queue/common.lua"),
            include_str!(concat!("../../scripts/queue/", $file))
        ))
    };
}

/// All of them.
pub(super) struct Scripts {
    pub(super) push: Script,
    pub(super) join: Script,
    pub(super) leave: Script,
    pub(super) beat: Script,
    pub(super) workers: Script,
    pub(super) recover: Script,
    pub(super) take: Script,
    pub(super) next: Script,
    pub(super) release: Script,
    pub(super) park: Script,
    pub(super) retry: Script,
    pub(super) discard: Script,
    pub(super) discarded: Script,
    pub(super) parked: Script,
    pub(super) backlog: Script,
    pub(super) inspect: Script,
    pub(super) objects: Script,
    pub(super) remove: Script,
    pub(super) remove_rest: Script,
    pub(super) forget: Script,
    pub(super) adopt: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            push: script!("push.lua"),
            join: script!("join.lua"),
            leave: script!("leave.lua"),
            beat: script!("beat.lua"),
            workers: script!("workers.lua"),
            recover: script!("recover.lua"),
            take: script!("take.lua"),
            next: script!("next.lua"),
            release: script!("release.lua"),
            park: script!("park.lua"),
            retry: script!("retry.lua"),
            discard: script!("discard.lua"),
            discarded: script!("discarded.lua"),
            parked: script!("parked.lua"),
            backlog: script!("backlog.lua"),
            inspect: script!("inspect.lua"),
            objects: script!("objects.lua"),
            remove: script!("remove.lua"),
            remove_rest: script!("remove_rest.lua"),
            forget: script!("forget.lua"),
            adopt: script!("adopt.lua"),
        }
    }
}
