//! The ledger's scripts.

use crate::script::Script;

/// A script of the ledger, with what all of them share before it.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../../scripts/once/common.lua"),
            include_str!(concat!("../../scripts/once/", $file))
        ))
    };
}

/// All of them.
pub(super) struct Scripts {
    pub(super) start: Script,
    pub(super) extend: Script,
    pub(super) complete: Script,
    pub(super) fail: Script,
    pub(super) doubt: Script,
    pub(super) resolve: Script,
    pub(super) forget: Script,
    pub(super) show: Script,
    pub(super) list: Script,
    pub(super) sweep: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            start: script!("start.lua"),
            extend: script!("extend.lua"),
            complete: script!("complete.lua"),
            fail: script!("fail.lua"),
            doubt: script!("doubt.lua"),
            resolve: script!("resolve.lua"),
            forget: script!("forget.lua"),
            show: script!("show.lua"),
            list: script!("list.lua"),
            sweep: script!("sweep.lua"),
        }
    }
}
