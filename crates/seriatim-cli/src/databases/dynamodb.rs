//! DynamoDB as a store.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;
use seriatim::source::Blocker;
use seriatim_dynamodb::{Address, DynamoDbLedger, DynamoDbStore, Table};

use super::backend::BackendStore;
use super::{Backend, Kind, OpenStore, Place};
use crate::commands::once::Form;
use crate::error::{Error, Result};

pub const KIND: Kind = Kind {
    schemes: &["dynamodb"],
    read: |given| match Address::from_url(given.url) {
        Ok(address) => Ok(Arc::new(DynamoDb(address))),
        Err(bad) => Err(super::refused(given, bad, None::<&str>)),
    },
};

/// A DynamoDB table.
#[derive(Debug)]
struct DynamoDb(Address);

impl DynamoDb {
    fn table(&self) -> Table {
        Table::new(self.0.client(), self.0.table())
    }
}

impl fmt::Display for DynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl BackendStore for DynamoDbStore {
    async fn risks(&self) -> Vec<Blocker> {
        DynamoDbStore::risks(self).await
    }
}

#[async_trait]
impl Backend for DynamoDb {
    fn name(&self) -> &'static str {
        "DynamoDB"
    }

    fn identity(&self) -> String {
        self.0.to_string()
    }

    async fn open_store(&self) -> Result<OpenStore> {
        Ok(OpenStore::new(DynamoDbStore::connect(&self.0).await?))
    }

    /// A table that is not there was never used; it is made by `run` on a server on this machine, and by `once init` elsewhere.
    async fn existing_store(&self) -> Result<Option<OpenStore>> {
        if !self.table().is_there().await? {
            return Ok(None);
        }
        let opened = DynamoDbStore::with_client(&self.0.client(), self.0.table()).await;
        Ok(Some(OpenStore::new(opened?)))
    }

    async fn check_store(&self) -> Result<&'static str> {
        match self.table().is_there().await? {
            true => Ok("is there"),
            false if self.0.is_on_this_machine() => Ok("will be made by the first run"),
            false => Err(Error::failed(format!("there is no table {} in DynamoDB", self.0.table()))
                .help("make it with `seriatim once init`, or print what makes it with `--print cloudformation` or `--print terraform`")),
        }
    }

    async fn open_ledger(&self) -> Result<Arc<dyn Ledger>> {
        Ok(Arc::new(DynamoDbLedger::connect(&self.0).await?))
    }

    async fn make_ledger(&self) -> Result<()> {
        Ok(self.table().make().await?)
    }

    async fn existing_ledger(&self) -> Result<Option<Arc<dyn Ledger>>> {
        let opened = DynamoDbLedger::with_client(&self.0.client(), self.0.table()).await;
        Ok(Some(Arc::new(opened?)))
    }

    async fn ledger_script(&self, form: Form) -> Result<String> {
        match form {
            Form::Cloudformation => Ok(Table::cloudformation(self.0.table())),
            Form::Terraform => Ok(Table::terraform(self.0.table())),
            Form::Sql => {
                Err(Error::usage("DynamoDB speaks no SQL: use --print cloudformation or --print terraform"))
            }
        }
    }

    /// The table itself stays: it was made, with its rights and its alarms, for more than this config.
    async fn purge(&self, _: Place, _: bool) -> Result<Option<String>> {
        if !self.table().is_there().await? {
            return Ok(None);
        }
        let store = DynamoDbStore::with_client(&self.0.client(), self.0.table()).await?;
        let purged = store.purge().await?;
        let left = match purged.signals_left {
            true => "; the signals of `once` are left in it: delete the table to forget them",
            false => "; the table is empty and can be deleted",
        };
        Ok((purged.items > 0).then(|| format!("{} items removed{left}", purged.items)))
    }

    async fn check_source(&self) -> Result<()> {
        self.check_store().await.map(drop)
    }
}
