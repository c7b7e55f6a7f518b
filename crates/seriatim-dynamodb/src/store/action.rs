//! What people have done.

use seriatim::store::{ACTIONS_KEPT, NotedAction, StoreError};

use super::requests::Look;
use super::{DynamoDbStore, keys, timestamp};
use crate::item::{number, number_of, text, text_of};
use crate::write::Update;

const COLLECTION: &str = "actions";

/// Old ones are looked for once in so many times.
const TRIM_ONE_IN: u32 = 100;

impl DynamoDbStore {
    pub(super) async fn add_action(&self, what: &str) -> Result<(), StoreError> {
        let place = format!("{:020}", self.draw(1).await?);
        let note = Update::of(keys::key(COLLECTION, &place))
            .set("notedAt = :at", ":at", number(self.time()))
            .set("actionText = :text", ":text", text(what))
            .only_if("attribute_not_exists(notedAt)");
        self.update("noting an action in", note).await?;
        if fastrand::u32(..TRIM_ONE_IN) == 0 {
            let look = Look { only: Some("id, processorId"), backwards: true, ..Look::default() };
            let notes = self.look(COLLECTION, look).await?;
            self.delete_all(notes.into_iter().skip(ACTIONS_KEPT).collect()).await?;
        }
        Ok(())
    }

    pub(super) async fn latest_actions(&self, limit: usize) -> Result<Vec<NotedAction>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let look = Look { backwards: true, limit: Some(limit), ..Look::default() };
        let notes = self.look(COLLECTION, look).await?;
        let noted = notes.iter().map(|note| {
            Ok(NotedAction {
                at: timestamp(number_of(note, "notedAt")?),
                text: text_of(note, "actionText")?.to_owned(),
            })
        });
        noted.collect()
    }
}
