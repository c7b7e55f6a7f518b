//! `seriatim once init`: what the ledger needs in its store.

use super::arguments::{Form, Init};
use crate::config::LedgerPlace;
use crate::error::{Error, Result};
use crate::{databases, output};

/// Makes what the ledger needs, or prints what would make it.
pub async fn execute(place: &LedgerPlace, arguments: &Init) -> Result<()> {
    match arguments.print {
        Some(form) => print(place, form).await,
        None => make(place).await,
    }
}

async fn print(place: &LedgerPlace, form: Form) -> Result<()> {
    let text = match (place, form) {
        (LedgerPlace::Sqlite(_), Form::Sql) => seriatim_sqlite::SqliteLedger::script(),
        (LedgerPlace::Postgres(database), Form::Sql) => databases::postgres_ledger_script(database).await?,
        (LedgerPlace::Sqlite(_), _) => {
            return Err(Error::usage("a SQLite file is made by SQL: use --print sql"));
        }
        (LedgerPlace::Postgres(_), _) => {
            return Err(Error::usage("PostgreSQL's tables are made by SQL: use --print sql"));
        }
        (LedgerPlace::Redis(_), _) => {
            return Err(Error::usage("nothing has to be made in Redis: leave `once init` out"));
        }
        #[cfg(feature = "dynamodb")]
        (LedgerPlace::DynamoDb(address), Form::Cloudformation) => {
            seriatim_dynamodb::Table::cloudformation(address.table())
        }
        #[cfg(feature = "dynamodb")]
        (LedgerPlace::DynamoDb(address), Form::Terraform) => {
            seriatim_dynamodb::Table::terraform(address.table())
        }
        #[cfg(feature = "dynamodb")]
        (LedgerPlace::DynamoDb(_), Form::Sql) => {
            return Err(Error::usage(
                "DynamoDB speaks no SQL: use --print cloudformation or --print terraform",
            ));
        }
    };
    output::line(text.trim_end())?;
    Ok(())
}

async fn make(place: &LedgerPlace) -> Result<()> {
    databases::make_ledger(place).await?;
    output::line("the ledger is there")?;
    Ok(())
}
