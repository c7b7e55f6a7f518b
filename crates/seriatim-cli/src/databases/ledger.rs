//! Ledgers of signals.

use std::sync::Arc;

use seriatim::once::Ledger;

use super::{postgres, redis, sqlite};
use crate::config::LedgerPlace;
#[cfg(feature = "dynamodb")]
use crate::error::Error;
use crate::error::Result;

/// Opens the ledger. One that is not there is made, now or by its first use, unless that is somebody else's to do.
pub async fn open_ledger(place: &LedgerPlace) -> Result<Arc<dyn Ledger>> {
    let opened: Result<Arc<dyn Ledger>> = match place {
        LedgerPlace::Sqlite(path) => sqlite::open_ledger(path).await,
        LedgerPlace::Postgres(database) => Ok(postgres::ledger(database)),
        LedgerPlace::Redis(url) => redis::ledger(url).await,
        #[cfg(feature = "dynamodb")]
        LedgerPlace::DynamoDb(address) => match seriatim_dynamodb::DynamoDbLedger::connect(address).await {
            Ok(ledger) => Ok(Arc::new(ledger)),
            Err(error) => Err(error.into()),
        },
    };
    opened.map_err(|error| error.about("store"))
}

/// Makes what the ledger needs, where it is not there.
pub async fn make_ledger(place: &LedgerPlace) -> Result<()> {
    let made = match place {
        LedgerPlace::Sqlite(path) => sqlite::open_ledger(path).await.map(drop),
        LedgerPlace::Postgres(database) => postgres::make_ledger(database).await,
        LedgerPlace::Redis(url) => redis::ledger(url).await.map(drop),
        #[cfg(feature = "dynamodb")]
        LedgerPlace::DynamoDb(address) => {
            let table = seriatim_dynamodb::Table::new(address.client(), address.table());
            table.make().await.map_err(Error::from)
        }
    };
    made.map_err(|error| error.about("store"))
}

/// Opens the ledger if there is one. Makes nothing.
pub async fn existing_ledger(place: &LedgerPlace) -> Result<Option<Arc<dyn Ledger>>> {
    let opened = match place {
        LedgerPlace::Sqlite(path) => sqlite::existing_ledger(path).await,
        LedgerPlace::Postgres(database) => postgres::existing_ledger(database).await,
        // There is nothing to make in Redis: an empty ledger is one that nobody has used.
        LedgerPlace::Redis(url) => redis::ledger(url).await.map(Some),
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
