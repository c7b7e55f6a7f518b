//! The end of all that Seriatim has made in a database.

use crate::database::Database;
use crate::error::PostgresError;

const THERE: &str = include_str!("../queries/purge_there.sql");
const BY_HAND: &str = include_str!("../queries/purge_by_hand.sql");
const DOING: &str = "taking all of Seriatim out of";

/// The schema that every database has, and that is never Seriatim's own.
const SHARED: &str = "public";

/// Why all of Seriatim cannot be taken out, or what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purged {
    /// There is nothing of it.
    NotThere,
    /// The schema is gone, with all that was in it and all triggers that called its functions.
    Gone,
    /// Its tables are in a schema that is everybody's: dropping that is nobody's business.
    SharedSchema,
    /// Logs that somebody has made by SQL, of these tables: their readers are not known here.
    ByHand(Vec<String>),
}

/// What becomes of logs that were made by SQL and not by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogsByHand {
    /// They keep everything where it is.
    Keep,
    /// They are dropped.
    Drop,
}

/// Takes Seriatim's schema out of the database with all that is in it. Hosts that still run fail.
pub async fn purge(database: &Database, by_hand: LogsByHand) -> Result<Purged, PostgresError> {
    let schema = database.schema();
    let there = database.query(DOING, THERE, &[&schema.as_str()]).await?;
    let (is_there, has_logs) = there.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if !is_there {
        return Ok(Purged::NotThere);
    }
    if schema.as_str() == SHARED {
        return Ok(Purged::SharedSchema);
    }
    if has_logs && by_hand == LogsByHand::Keep {
        let logs = database.query(DOING, BY_HAND, &[]).await?;
        if !logs.is_empty() {
            return Ok(Purged::ByHand(logs.iter().map(|row| row.get(0)).collect()));
        }
    }
    let client = database.client().await?;
    let dropped = client.batch_execute(&format!("drop schema if exists {schema} cascade")).await;
    dropped.map_err(|cause| database.error(DOING, cause))?;
    Ok(Purged::Gone)
}
