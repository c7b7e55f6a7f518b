//! Conditional writes, put together piece by piece.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use seriatim::once::Signal;
use seriatim::store::StoreError;

use super::item::{Item, key};
use crate::error::explain;

/// How a conditional write went.
pub(super) enum Written {
    /// It is done; this is the item, after an update.
    Done(Item),
    /// Its condition does not hold: this is the item as it stands, if there is one.
    Refused(Option<Item>),
}

/// An update of one item.
pub(super) struct Update {
    key: Item,
    sets: Vec<String>,
    removes: Vec<&'static str>,
    values: HashMap<String, AttributeValue>,
    condition: String,
}

impl Update {
    pub(super) fn of(signal: &Signal) -> Self {
        let (sets, removes, values) = (Vec::new(), Vec::new(), HashMap::new());
        Update { key: key(signal), sets, removes, values, condition: String::new() }
    }

    /// Sets an attribute by an expression with a value in it.
    pub(super) fn set(mut self, expression: &str, name: &str, value: AttributeValue) -> Self {
        self.sets.push(expression.to_owned());
        self.value(name, value)
    }

    pub(super) fn remove(mut self, attribute: &'static str) -> Self {
        self.removes.push(attribute);
        self
    }

    pub(super) fn only_if(self, condition: &str) -> Self {
        Update { condition: condition.to_owned(), ..self }
    }

    pub(super) fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(super) async fn send(self, client: &Client, table: &str, doing: &str) -> Result<Written, StoreError> {
        let mut expression = format!("SET {}", self.sets.join(", "));
        if !self.removes.is_empty() {
            expression += &format!(" REMOVE {}", self.removes.join(", "));
        }
        let sent = client
            .update_item()
            .table_name(table)
            .set_key(Some(self.key))
            .update_expression(expression)
            .condition_expression(self.condition)
            .set_expression_attribute_values(Some(self.values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match sent {
            Ok(done) => Ok(Written::Done(done.attributes.unwrap_or_default())),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::Refused(refused.item.clone().filter(|item| !item.is_empty())))
                }
                _ => Err(explain(doing, table, error)),
            },
        }
    }
}

/// The removal of one item.
pub(super) struct Delete {
    key: Item,
    values: HashMap<String, AttributeValue>,
    condition: String,
}

impl Delete {
    pub(super) fn of(signal: &Signal) -> Self {
        Delete { key: key(signal), values: HashMap::new(), condition: String::new() }
    }

    pub(super) fn only_if(self, condition: &str) -> Self {
        Delete { condition: condition.to_owned(), ..self }
    }

    pub(super) fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(super) async fn send(self, client: &Client, table: &str, doing: &str) -> Result<Written, StoreError> {
        let sent = client
            .delete_item()
            .table_name(table)
            .set_key(Some(self.key))
            .condition_expression(self.condition)
            .set_expression_attribute_values(Some(self.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(Written::Done(Item::new())),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::Refused(refused.item.clone().filter(|item| !item.is_empty())))
                }
                _ => Err(explain(doing, table, error)),
            },
        }
    }
}
