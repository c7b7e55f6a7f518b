//! What people did. A store that cannot remember that says so.

use seriatim::store::ACTIONS_KEPT;

use super::{Harness, Stage};

/// The stage, if the store remembers actions; one that does not refuses to be told.
async fn set(harness: &impl Harness) -> Option<Stage> {
    let stage = Stage::set(harness).await;
    if stage.store.notes_actions() {
        return Some(stage);
    }
    assert!(stage.store.note_action("x").await.is_err());
    assert_eq!(stage.store.actions(10).await.unwrap(), []);
    None
}

async fn texts(stage: &Stage, limit: usize) -> Vec<String> {
    stage.other.actions(limit).await.unwrap().into_iter().map(|action| action.text).collect()
}

/// Latest first, also two in one moment, whatever is in them; and forgetting a feed forgets none.
pub async fn what_people_did_is_kept_for_everybody(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let all = ["retry", "retry", "{\"why\": \"'; --\"}", "größer"];
    for text in all {
        stage.store.note_action(text).await.unwrap();
    }
    stage.store.forget(&stage.feed).await.unwrap();
    let mut latest_first = all;
    latest_first.reverse();
    assert_eq!(texts(&stage, 10).await, latest_first);
    assert_eq!(texts(&stage, 2).await, latest_first[..2]);
    assert_eq!(texts(&stage, 0).await, [""; 0]);
}

/// At least so many as are promised, and not for ever more.
pub async fn old_actions_make_room_for_new_ones(harness: &impl Harness) {
    let Some(stage) = set(harness).await else { return };
    let most = ACTIONS_KEPT * 3 / 2;
    for number in 0..most {
        stage.store.note_action(&number.to_string()).await.unwrap();
    }
    let kept = texts(&stage, most).await;
    assert!(kept.len() >= ACTIONS_KEPT, "{} are kept", kept.len());
    assert_eq!(kept[0], (most - 1).to_string());
    assert_eq!(kept[ACTIONS_KEPT - 1], (most - ACTIONS_KEPT).to_string());
}
