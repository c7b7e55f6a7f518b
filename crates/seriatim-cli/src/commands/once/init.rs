//! `seriatim once init`: what the ledger needs in its store.

use super::arguments::{Form, Init};
use crate::databases::Database;
use crate::error::Result;
use crate::{databases, output};

/// Makes what the ledger needs, or prints what would make it.
pub async fn execute(store: &Database, arguments: &Init) -> Result<()> {
    match arguments.print {
        Some(form) => print(store, form).await,
        None => make(store).await,
    }
}

async fn print(store: &Database, form: Form) -> Result<()> {
    let text = store.ledger_script(form).await?;
    output::line(text.trim_end())?;
    Ok(())
}

async fn make(store: &Database) -> Result<()> {
    databases::make_ledger(store).await?;
    output::line("the ledger is there")?;
    Ok(())
}
