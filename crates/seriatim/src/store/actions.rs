//! What people have done, for whoever asks later.

use jiff::Timestamp;

use super::StoreError;

/// How many actions a store remembers at least.
pub const ACTIONS_KEPT: usize = 1000;

/// Something that somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedAction {
    /// When it was noted, by the store's clock.
    pub at: Timestamp,
    /// Who did what, to what and why: a text that the store does not look into.
    pub text: String,
}

pub(super) fn cannot_note() -> StoreError {
    StoreError::needs_attention(
        "this store cannot remember what people do".to_owned(),
        "use the program's commands instead",
    )
}
