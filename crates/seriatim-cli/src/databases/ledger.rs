//! Ledgers of signals.

use std::sync::Arc;

use seriatim::once::Ledger;

use super::{postgres, sqlite};
use crate::config::LedgerPlace;
use crate::error::Result;

/// Opens the ledger, making it if there is none and that is not somebody else's to do.
pub async fn open_ledger(place: &LedgerPlace) -> Result<Arc<dyn Ledger>> {
    let opened: Result<Arc<dyn Ledger>> = match place {
        LedgerPlace::Sqlite(path) => sqlite::open_ledger(path).await,
        LedgerPlace::Postgres(database) => postgres::open_ledger(database).await,
        #[cfg(feature = "dynamodb")]
        LedgerPlace::DynamoDb(address) => match seriatim_dynamodb::DynamoDbLedger::connect(address).await {
            Ok(ledger) => Ok(Arc::new(ledger)),
            Err(error) => Err(error.into()),
        },
    };
    opened.map_err(|error| error.about("store"))
}

/// Opens the ledger if there is one. Makes nothing.
pub async fn existing_ledger(place: &LedgerPlace) -> Result<Option<Arc<dyn Ledger>>> {
    let opened = match place {
        LedgerPlace::Sqlite(path) => sqlite::existing_ledger(path).await,
        LedgerPlace::Postgres(database) => postgres::existing_ledger(database).await,
        #[cfg(feature = "dynamodb")]
        LedgerPlace::DynamoDb(address) => {
            let client = address.client();
            match seriatim_dynamodb::DynamoDbLedger::with_client(&client, address.table()).await {
                Ok(ledger) => Ok(Some(Arc::new(ledger) as Arc<dyn Ledger>)),
                Err(error) => Err(error.into()),
            }
        }
    };
    opened.map_err(|error| error.about("store"))
}
