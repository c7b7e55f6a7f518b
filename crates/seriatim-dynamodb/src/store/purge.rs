//! The end of the store in its table. Signals of a ledger in the same table stay.

use seriatim::store::StoreError;

use super::{DynamoDbStore, keys};
use crate::error::explain;
use crate::item::{Item, text_of};

/// What became of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many items of the store were removed.
    pub items: usize,
    /// Whether other items are left: the signals of a ledger.
    pub signals_left: bool,
}

impl DynamoDbStore {
    /// Removes every item of the store, and leaves the signals of a ledger and the table where they are.
    pub async fn purge(&self) -> Result<Purged, StoreError> {
        let (mut from, mut items, mut signals_left) = (None, 0, false);
        loop {
            let scan = self.client.scan().table_name(&self.table).projection_expression("id, processorId");
            let page = scan.set_exclusive_start_key(from).send().await;
            let page = page.map_err(|error| explain("reading all of", &self.table, error))?;
            let found: Vec<Item> = page.items.unwrap_or_default();
            let all = found.len();
            let ours: Vec<Item> = found.into_iter().filter(is_ours).collect();
            signals_left |= ours.len() < all;
            items += ours.len();
            self.delete_all(ours).await?;
            from = page.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() {
                return Ok(Purged { items, signals_left });
            }
        }
    }
}

fn is_ours(item: &Item) -> bool {
    text_of(item, "id").is_ok_and(|id| id.starts_with(keys::MARK))
}
