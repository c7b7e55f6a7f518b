//! DynamoDB as a store.

use std::sync::Arc;

use seriatim::store::StoreError;
use seriatim_dynamodb::{Address, DynamoDbStore, Table};

use crate::error::{Error, Result};

pub async fn open_store(address: &Address) -> Result<Arc<DynamoDbStore>> {
    let opened = DynamoDbStore::connect(address).await;
    opened.map(Arc::new).map_err(|error: StoreError| Error::from(error))
}

/// A table that is not there was never used; it is made by `run` on a server on this machine, and by `once init` elsewhere.
pub async fn existing_store(address: &Address) -> Result<Option<Arc<DynamoDbStore>>> {
    if !Table::new(address.client(), address.table()).is_there().await? {
        return Ok(None);
    }
    let opened = DynamoDbStore::with_client(&address.client(), address.table()).await;
    Ok(Some(Arc::new(opened?)))
}

pub async fn check_store(address: &Address) -> Result<&'static str> {
    match Table::new(address.client(), address.table()).is_there().await? {
        true => Ok("is there"),
        false if address.is_on_this_machine() => Ok("will be made by the first run"),
        false => Err(Error::failed(format!("there is no table {} in DynamoDB", address.table()))
            .help("make it with `seriatim once init`, or print what makes it with `--print cloudformation` or `--print terraform`")),
    }
}
