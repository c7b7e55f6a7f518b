//! Conditional writes, put together piece by piece.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update as Updating,
};
use seriatim::store::StoreError;

use crate::error::explain;
use crate::item::Item;

/// How often a write that met a transaction on its item is sent again, after a pause that grows.
const CONFLICTS: u32 = 10;

/// How a conditional write went.
pub(crate) enum Written {
    /// It is done; this is the item, after an update.
    Done(Item),
    /// Its condition does not hold: this is the item as it stands, if there is one.
    Refused(Option<Item>),
}

/// An update of one item.
#[derive(Clone)]
pub(crate) struct Update {
    key: Item,
    sets: Vec<String>,
    removes: Vec<&'static str>,
    values: HashMap<String, AttributeValue>,
    condition: String,
}

impl Update {
    pub(crate) fn of(key: Item) -> Self {
        let (sets, removes, values) = (Vec::new(), Vec::new(), HashMap::new());
        Update { key, sets, removes, values, condition: String::new() }
    }

    /// Sets an attribute by an expression with a value in it.
    pub(crate) fn set(mut self, expression: &str, name: &str, value: AttributeValue) -> Self {
        self.sets.push(expression.to_owned());
        self.value(name, value)
    }

    pub(crate) fn remove(mut self, attribute: &'static str) -> Self {
        self.removes.push(attribute);
        self
    }

    pub(crate) fn only_if(self, condition: &str) -> Self {
        Update { condition: condition.to_owned(), ..self }
    }

    /// Only if this holds, too.
    pub(crate) fn and_if(self, condition: &str) -> Self {
        let condition = format!("({}) AND ({condition})", self.condition);
        Update { condition, ..self }
    }

    pub(crate) fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn values(self, values: Vec<(&'static str, AttributeValue)>) -> Self {
        values.into_iter().fold(self, |written, (name, value)| written.value(name, value))
    }

    fn expression(&self) -> String {
        let sets = if self.sets.is_empty() { String::new() } else { format!("SET {}", self.sets.join(", ")) };
        match self.removes.as_slice() {
            [] => sets,
            removes => format!("{sets} REMOVE {}", removes.join(", ")),
        }
    }

    /// As a part of a transaction.
    pub(crate) fn in_transaction(self, table: &str) -> TransactWriteItem {
        let update = Updating::builder()
            .table_name(table)
            .update_expression(self.expression())
            .condition_expression(self.condition)
            .set_key(Some(self.key))
            .set_expression_attribute_values(some(&self.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let update = update.build().expect("all that is required is given");
        TransactWriteItem::builder().update(update).build()
    }

    pub(crate) async fn send(self, client: &Client, table: &str, doing: &str) -> Result<Written, StoreError> {
        let expression = self.expression();
        let mut conflicts = Conflicts::default();
        loop {
            let sent = client
                .update_item()
                .table_name(table)
                .set_key(Some(self.key.clone()))
                .update_expression(&expression)
                .condition_expression(&self.condition)
                .set_expression_attribute_values(some(&self.values))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
                .await;
            match sent {
                Ok(done) => return Ok(Written::Done(done.attributes.unwrap_or_default())),
                Err(error) => match error.as_service_error() {
                    Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                        return Ok(Written::Refused(refused.item.clone().filter(|item| !item.is_empty())));
                    }
                    _ if is_conflict(&error) && conflicts.again().await => {}
                    _ => return Err(explain(doing, table, error)),
                },
            }
        }
    }
}

/// The removal of one item.
pub(crate) struct Delete {
    key: Item,
    values: HashMap<String, AttributeValue>,
    condition: String,
}

impl Delete {
    pub(crate) fn of(key: Item) -> Self {
        Delete { key, values: HashMap::new(), condition: String::new() }
    }

    pub(crate) fn only_if(self, condition: &str) -> Self {
        Delete { condition: condition.to_owned(), ..self }
    }

    pub(crate) fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn values(self, values: Vec<(&'static str, AttributeValue)>) -> Self {
        values.into_iter().fold(self, |written, (name, value)| written.value(name, value))
    }

    pub(crate) async fn send(self, client: &Client, table: &str, doing: &str) -> Result<Written, StoreError> {
        let mut conflicts = Conflicts::default();
        loop {
            let sent = client
                .delete_item()
                .table_name(table)
                .set_key(Some(self.key.clone()))
                .condition_expression(&self.condition)
                .set_expression_attribute_values(some(&self.values))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
                .await;
            match sent {
                Ok(_) => return Ok(Written::Done(Item::new())),
                Err(error) => match error.as_service_error() {
                    Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
                        return Ok(Written::Refused(refused.item.clone().filter(|item| !item.is_empty())));
                    }
                    _ if is_conflict(&error) && conflicts.again().await => {}
                    _ => return Err(explain(doing, table, error)),
                },
            }
        }
    }
}

/// DynamoDB wants no values rather than none of them.
fn some(values: &HashMap<String, AttributeValue>) -> Option<HashMap<String, AttributeValue>> {
    (!values.is_empty()).then(|| values.clone())
}

/// Whether a transaction was at the item just then.
fn is_conflict<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some("TransactionConflictException")
}

/// Counts how often others were in the way.
#[derive(Default)]
pub(crate) struct Conflicts(u32);

impl Conflicts {
    /// Pauses, longer each time and not as long as others; `false` when it was often enough.
    pub(crate) async fn again(&mut self) -> bool {
        self.0 += 1;
        let longest = Duration::from_millis(10) * 2u32.pow(self.0.min(6));
        tokio::time::sleep(longest.mul_f64(0.2 + 0.8 * fastrand::f64())).await;
        self.0 <= CONFLICTS
    }
}
