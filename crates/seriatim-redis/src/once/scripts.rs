//! The ledger's scripts.

use crate::script::Script;

/// A script of the ledger, after the parts that it needs and what all of them share.
macro_rules! script {
    ($file:literal $(, $part:literal)*) => {
        Script::new(concat!(
            include_str!("../../scripts/once/common.lua"),
            $(include_str!(concat!("../../scripts/once/parts/", $part)),)*
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
            start: script!("start.lua", "life.lua", "claim.lua", "new.lua", "record.lua"),
            extend: script!("extend.lua", "life.lua", "open.lua"),
            complete: script!("complete.lua", "complete.lua"),
            fail: script!("fail.lua", "open.lua", "forget.lua"),
            doubt: script!("doubt.lua", "open.lua"),
            resolve: script!("resolve.lua", "complete.lua", "forget.lua"),
            forget: script!("forget.lua", "forget.lua"),
            show: script!("show.lua", "life.lua", "record.lua"),
            list: script!("list.lua", "life.lua", "record.lua"),
            sweep: script!("sweep.lua"),
        }
    }
}
