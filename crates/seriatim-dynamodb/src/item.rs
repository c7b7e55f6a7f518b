//! Attributes of items, by name and type.

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::types::AttributeValue;
use seriatim::store::StoreError;

/// What DynamoDB keeps under one key.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The key of an item in the table that ledger and store share.
pub(crate) fn key_of(id: &str, processor: &str) -> Item {
    HashMap::from([("id".to_owned(), text(id)), ("processorId".to_owned(), text(processor))])
}

pub(crate) fn text_of<'a>(item: &'a Item, name: &str) -> Result<&'a str, StoreError> {
    optional_text(item, name).ok_or_else(|| foreign(format!("an item has no text {name}")))
}

pub(crate) fn optional_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    }
}

pub(crate) fn number_of<N: FromStr>(item: &Item, name: &str) -> Result<N, StoreError> {
    optional_number(item, name)?.ok_or_else(|| foreign(format!("an item has no number {name}")))
}

pub(crate) fn optional_number<N: FromStr>(item: &Item, name: &str) -> Result<Option<N>, StoreError> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(number)) => {
            number.parse().map(Some).map_err(|_| foreign(format!("{name} is {number}")))
        }
        Some(_) => Err(foreign(format!("{name} is no number"))),
    }
}

/// An item that makes no sense.
pub(crate) fn foreign(what: impl std::fmt::Display) -> StoreError {
    StoreError::needs_attention(
        format!("the table has an item that is not Seriatim's: {what}"),
        "give Seriatim a table of its own",
    )
}
