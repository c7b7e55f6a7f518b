//! The hashes of keys as the journal's triggers note them.

use seriatim::value::{Key, Value};
use tokio_postgres::types::ToSql;

use super::rows::canonical;
use super::watched::Watched;
use crate::capture::error::Fault;
use crate::database::Client;

/// The hash of each key.
pub(super) async fn of(client: &Client, watched: &Watched, keys: &[Key]) -> Result<Vec<u64>, Fault> {
    let (journal, types) = (watched.sql(), &watched.entry.known.key_types);
    let columns: Vec<Vec<Option<String>>> =
        (0..types.len()).map(|at| keys.iter().map(|key| text(key, at)).collect()).collect();
    let names: Vec<String> = (0..types.len()).map(|at| format!("k{at}")).collect();
    let values: Vec<String> =
        names.iter().zip(types).map(|(name, of)| canonical(&in_json(name, *of), *of)).collect();
    let parameters: Vec<String> = (1..=types.len()).map(|at| format!("${at}::pg_catalog.text[]")).collect();
    let sql = format!(
        "select {} from unnest({}) with ordinality keys ({}, place) order by place",
        journal.hash_of(&values),
        parameters.join(", "),
        names.join(", ")
    );
    let columns: Vec<&(dyn ToSql + Sync)> =
        columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
    let rows = client.query(&sql, &columns).await?;
    Ok(rows.iter().map(|row| u64::from(row.get::<_, i32>(0).unsigned_abs())).collect())
}

/// The text that PostgreSQL has in JSON for a value, where that is another one than ours.
fn in_json(text: &str, of: u32) -> String {
    match of {
        // A timestamp without time zone: a key has it as a moment.
        1114 => format!("(pg_catalog.to_json({text}::pg_catalog.timestamp) operator(pg_catalog.#>>) '{{}}')"),
        _ => text.to_owned(),
    }
}

/// A value of a key as a text that PostgreSQL reads.
fn text(key: &Key, at: usize) -> Option<String> {
    Some(match key.row().values().get(at)? {
        Value::Null => return None,
        Value::Bool(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Decimal(text) | Value::Text(text) | Value::Json(text) => text.to_string(),
        Value::Bytes(bytes) => {
            bytes.iter().fold("\\x".to_owned(), |digits, byte| format!("{digits}{byte:02x}"))
        }
        Value::Time(time) => time.to_string(),
    })
}
