//! Debezium's JSON without schemas (`schemas.enable=false`), so that its consumers of today go on working.
//!
//! Values are written as Debezium writes them with `decimal.handling.mode=string` and `time.precision.mode=isostring`, and `before`
//! is there as with `REPLICA IDENTITY FULL`. Documents are texts. Where Debezium tells of the server's log, this tells of the
//! change: `source.lsn` is its id, which rises for each object. Times are those of the change, so that the same change always has
//! the same bytes.

use seriatim::Change;
use seriatim::change::Op;
use seriatim::value::{Row, Value};

use super::field::{first, json, member};

/// Where changes come from, in Debezium's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The kind of database, such as `postgresql`.
    pub connector: String,
    /// The name of the source: Debezium's `topic.prefix`.
    pub name: String,
    /// The database.
    pub db: String,
    /// The schema, where there are schemas.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
}

/// Writes the value of Debezium's message.
pub fn write(change: &Change, origin: &Origin, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"before\":");
    row(change.before.as_ref(), out);
    out.extend_from_slice(b",\"after\":");
    row(change.after.as_ref(), out);
    out.extend_from_slice(b",\"source\":");
    source(change, origin, out);
    out.extend_from_slice(b",\"transaction\":null");
    member(out, "op", op(change.op));
    times(change, out);
    out.push(b'}');
}

/// A row that was only read, be it at the start or because the capture cannot tell more, is Debezium's read.
fn op(op: Op) -> &'static str {
    match op {
        Op::Insert | Op::Event => "c",
        Op::Update => "u",
        Op::Delete => "d",
        Op::Upsert => "r",
        Op::Truncate => "t",
    }
}

fn times(change: &Change, out: &mut Vec<u8>) {
    let nanoseconds = change.at.as_nanosecond();
    member(out, "ts_ms", &change.at.as_millisecond());
    member(out, "ts_us", &change.at.as_microsecond());
    // Within 64 bits until the year 2262.
    member(out, "ts_ns", &i64::try_from(nanoseconds).ok());
}

fn source(change: &Change, origin: &Origin, out: &mut Vec<u8>) {
    out.push(b'{');
    first(out, "version", concat!("seriatim-", env!("CARGO_PKG_VERSION")));
    member(out, "connector", &origin.connector);
    member(out, "name", &origin.name);
    member(out, "ts_ms", &change.at.as_millisecond());
    member(out, "snapshot", if change.op == Op::Upsert { "true" } else { "false" });
    member(out, "db", &origin.db);
    // Debezium's pair of log positions; consumers compare the second.
    member(out, "sequence", &format!("[null,\"{}\"]", change.id));
    member(out, "ts_us", &change.at.as_microsecond());
    member(out, "ts_ns", &i64::try_from(change.at.as_nanosecond()).ok());
    if let Some(schema) = &origin.schema {
        member(out, "schema", schema);
    }
    member(out, "table", &origin.table);
    member(out, "txId", &None::<u64>);
    member(out, "lsn", &change.id);
    for unknown in ["xmin", "origin", "origin_lsn"] {
        member(out, unknown, &None::<u64>);
    }
    out.push(b'}');
}

fn row(row: Option<&Row>, out: &mut Vec<u8>) {
    let Some(row) = row else { return out.extend_from_slice(b"null") };
    out.push(b'{');
    for (index, (name, value)) in row.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json(out, name);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        // As Debezium does it, a document is the text that the database has, and a moment has all its microseconds.
        Value::Json(text) => json(out, text.as_ref()),
        Value::Time(time) => json(out, &format!("{time:.6}")),
        value => json(out, &value.to_json()),
    }
}
