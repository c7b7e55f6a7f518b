//! Reads, all of them consistent, and transactions.

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, TransactWriteItem};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use seriatim::store::StoreError;

use super::{DynamoDbStore, keys};
use crate::error::explain;
use crate::item::{Item, text};
use crate::write::{Conflicts, Delete, Update, Written};

/// So many requests are on their way at the same time, where there are many to make.
pub(super) const AT_ONCE: usize = 16;

/// So many items are read in one request at most.
const BATCH: usize = 100;

/// Which items of a collection, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look<'a> {
    /// Only those whose second key begins so.
    pub beginning: Option<&'a str>,
    /// Only these attributes.
    pub only: Option<&'a str>,
    /// The last ones first.
    pub backwards: bool,
    /// At most so many.
    pub limit: Option<usize>,
    /// Those after this second key.
    pub after: Option<&'a str>,
}

/// How a transaction went.
pub(super) enum Transacted {
    Done,
    /// Conditions do not hold: those of the writes at these places. This is the item of the first write, if its own does not
    /// hold and there is one.
    Refused(Option<Item>, Vec<usize>),
}

impl DynamoDbStore {
    pub(super) async fn get(&self, key: Item) -> Result<Option<Item>, StoreError> {
        let got = self.client.get_item().table_name(&self.table).set_key(Some(key)).consistent_read(true);
        let got = got.send().await.map_err(|error| explain("reading an item of", &self.table, error))?;
        Ok(got.item.filter(|item| !item.is_empty()))
    }

    /// Items by their keys, in the same order.
    pub(super) async fn get_all(&self, keys: Vec<Item>) -> Result<Vec<Option<Item>>, StoreError> {
        stream::iter(keys).map(|key| self.get(key)).buffered(AT_ONCE).try_collect().await
    }

    /// Items of a collection, in the order of their second key.
    pub(super) async fn look(&self, collection: &str, look: Look<'_>) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::new();
        let mut from = look.after.map(|after| keys::key(collection, after));
        loop {
            let mut query = self.client.query().table_name(&self.table).consistent_read(true);
            let condition = match look.beginning {
                Some(beginning) => {
                    query = query.expression_attribute_values(":beginning", text(beginning));
                    "id = :id AND begins_with(processorId, :beginning)"
                }
                None => "id = :id",
            };
            let left = look.limit.map(|limit| limit.saturating_sub(found.len()));
            let answer = query
                .key_condition_expression(condition)
                .expression_attribute_values(":id", text(&keys::collection(collection)))
                .set_projection_expression(look.only.map(str::to_owned))
                .scan_index_forward(!look.backwards)
                .set_limit(left.map(|left| i32::try_from(left.max(1)).unwrap_or(i32::MAX)))
                .set_exclusive_start_key(from)
                .send()
                .await;
            let answer = answer.map_err(|error| explain("reading from", &self.table, error))?;
            found.extend(answer.items.unwrap_or_default());
            from = answer.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() || look.limit.is_some_and(|limit| found.len() >= limit) {
                return Ok(found);
            }
        }
    }

    pub(super) async fn update(&self, doing: &str, update: Update) -> Result<Written, StoreError> {
        update.send(&self.client, &self.table, doing).await
    }

    /// Removes an item, whatever it is.
    pub(super) async fn delete(&self, key: Item) -> Result<(), StoreError> {
        let delete = Delete::of(key).only_if("attribute_exists(id)");
        delete.send(&self.client, &self.table, "removing an item of").await.map(|_| ())
    }

    pub(super) async fn delete_all(&self, keys: Vec<Item>) -> Result<(), StoreError> {
        stream::iter(keys).map(|key| self.delete(key)).buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// Items by their keys, as many as there are, in no order.
    pub(super) async fn get_batch(&self, keys: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let (mut found, mut keys) = (Vec::new(), keys);
        while !keys.is_empty() {
            let batch: Vec<Item> = keys.drain(..keys.len().min(BATCH)).collect();
            let wanted = KeysAndAttributes::builder().set_keys(Some(batch)).consistent_read(true).build();
            let wanted = wanted.expect("all that is required is given");
            let got = self.client.batch_get_item().request_items(&self.table, wanted).send().await;
            let got = got.map_err(|error| explain("reading items of", &self.table, error))?;
            found.extend(got.responses.unwrap_or_default().into_values().flatten());
            // What did not fit into one answer.
            keys.extend(got.unprocessed_keys.unwrap_or_default().into_values().flat_map(|rest| rest.keys));
        }
        Ok(found)
    }

    /// All writes or none.
    pub(super) async fn transact(
        &self,
        doing: &str,
        writes: Vec<TransactWriteItem>,
    ) -> Result<Transacted, StoreError> {
        let mut conflicts = Conflicts::default();
        loop {
            let sending = self.client.transact_write_items().set_transact_items(Some(writes.clone()));
            let error = match sending.send().await {
                Ok(_) => return Ok(Transacted::Done),
                Err(error) => error,
            };
            let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
                error.as_service_error()
            else {
                let waits = error.as_service_error().is_some_and(|error| {
                    error.code().is_some_and(|code| code == "TransactionInProgressException")
                });
                if waits && conflicts.again().await {
                    continue;
                }
                return Err(explain(doing, &self.table, error));
            };
            let reasons = cancelled.cancellation_reasons();
            let refused = |code: &str| reasons.iter().position(|reason| reason.code() == Some(code));
            match refused("ConditionalCheckFailed") {
                Some(first) => {
                    let failed = |place: &usize| reasons[*place].code() == Some("ConditionalCheckFailed");
                    let places = (0..reasons.len()).filter(failed).collect();
                    let item = reasons[first].item.clone().filter(|item| first == 0 && !item.is_empty());
                    return Ok(Transacted::Refused(item, places));
                }
                // Too large, or an item that makes no sense: it will not get better.
                None if refused("ValidationError").is_some() => {
                    let said =
                        reasons.iter().find_map(|reason| reason.message()).unwrap_or("an invalid item");
                    return Err(StoreError::needs_attention(
                        format!("{doing} the table {}: {said}", self.table),
                        "see DynamoDB's message",
                    ));
                }
                // Others were at these items, or the table is throttled.
                None if conflicts.again().await => {}
                None => return Err(explain(doing, &self.table, error)),
            }
        }
    }
}

/// An item with these attributes beside its key.
pub(super) fn item<const N: usize>(key: Item, attributes: [(&str, AttributeValue); N]) -> Item {
    let mut item = key;
    item.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    item
}
