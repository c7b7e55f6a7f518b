//! `seriatim pg-log`: the SQL of PostgreSQL's logs, without any database.

use seriatim_postgres::{Schema, log_sql};

use crate::args::PgLog;
use crate::error::{Error, Result};
use crate::output;

/// Prints the SQL.
pub fn execute(arguments: &PgLog) -> Result<()> {
    let schema = Schema::new(&arguments.schema).ok_or_else(|| {
        Error::usage(format!("--schema cannot be {:?}", arguments.schema))
            .help("use 1 to 40 lower-case letters, digits and underscores, such as app_log; names with pg_ are the server's")
    })?;
    output::line(log_sql(&schema).trim_end())?;
    Ok(())
}
