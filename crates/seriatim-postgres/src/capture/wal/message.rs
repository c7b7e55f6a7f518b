//! What the server says of a transaction: the messages of `pgoutput`, protocol 1. Nothing here touches a database.
//!
//! With this protocol a transaction is told as a whole, when it has committed, and transactions come in the order of their commits:
//!
//! ```text
//!   Begin  Relation  Insert  Update  …  Commit        Begin  Delete  Truncate  Commit        …
//! ```
//!
//! A relation is described before the first change of it, and again when it was altered.

use thiserror::Error;

use super::lsn::Lsn;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A transaction begins.
    Begin {
        /// The place of its commit.
        commit: Lsn,
        /// When it committed, in microseconds since 2000.
        at: i64,
        xid: u32,
    },
    /// The transaction is complete.
    Commit {
        commit: Lsn,
        /// The place after its commit.
        end: Lsn,
        at: i64,
    },
    /// The transaction came from another server.
    Origin,
    /// What a table is like.
    Relation(Relation),
    /// What a type is called.
    Type,
    /// A row was inserted.
    Insert { relation: u32, new: Tuple },
    /// A row was updated.
    Update { relation: u32, old: Option<Old>, new: Tuple },
    /// A row was deleted.
    Delete { relation: u32, old: Old },
    /// Tables were emptied.
    Truncate { relations: Vec<u32> },
    /// Somebody has put words into the log.
    Words { transactional: bool, prefix: String },
}

/// The row as it was, as far as the table's replica identity has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    /// The columns of the replica identity; all others are null, whatever they were.
    Key(Tuple),
    /// All columns.
    Full(Tuple),
}

/// The values of a row, one for each column of its relation.
pub(crate) type Tuple = Vec<Datum>;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Datum {
    Null,
    /// It is large, stored aside, and was not changed: the log does not have it.
    Unchanged,
    /// As its type writes it.
    Text(String),
}

/// What a table is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub id: u32,
    pub schema: String,
    pub name: String,
    /// The replica identity: `d` default, `n` nothing, `f` full, `i` an index.
    pub identity: char,
    pub columns: Vec<Column>,
}

/// A column of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// It belongs to the replica identity.
    pub key: bool,
    pub name: String,
    pub of: u32,
    pub modifier: i32,
}

/// A message that does not look like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a message of the server's log cannot be understood: {0}")]
pub(crate) struct Malformed(pub(super) &'static str);

impl Message {
    /// Understands a message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        let message = match rest.byte()? {
            b'B' => Message::Begin { commit: rest.lsn()?, at: rest.i64()?, xid: rest.u32()? },
            b'C' => rest.commit()?,
            b'O' => {
                rest.lsn()?;
                rest.string()?;
                Message::Origin
            }
            b'R' => Message::Relation(rest.relation()?),
            b'Y' => {
                rest.u32()?;
                rest.string()?;
                rest.string()?;
                Message::Type
            }
            b'I' => rest.insert()?,
            b'U' => rest.update()?,
            b'D' => rest.delete()?,
            b'T' => rest.truncate()?,
            b'M' => rest.words()?,
            _ => return Err(Malformed("its kind is unknown")),
        };
        match rest.0 {
            [] => Ok(message),
            _ => Err(Malformed("there is more of it than there should be")),
        }
    }
}

/// What is left of a message.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

const SHORT: Malformed = Malformed("it is cut off");

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn lsn(&mut self) -> Result<Lsn, Malformed> {
        self.array().map(|bytes| Lsn(u64::from_be_bytes(bytes)))
    }

    fn string(&mut self) -> Result<String, Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
        let text = text(self.take(end)?)?;
        self.take(1)?;
        Ok(text)
    }

    fn commit(&mut self) -> Result<Message, Malformed> {
        // Flags, of which there are none yet.
        self.byte()?;
        Ok(Message::Commit { commit: self.lsn()?, end: self.lsn()?, at: self.i64()? })
    }

    fn relation(&mut self) -> Result<Relation, Malformed> {
        let (id, schema, name) = (self.u32()?, self.string()?, self.string()?);
        // The server's own schema has no name here.
        let schema = if schema.is_empty() { "pg_catalog".to_owned() } else { schema };
        let identity = char::from(self.byte()?);
        let count = self.u16()?;
        let columns = (0..count).map(|_| self.column()).collect::<Result<_, _>>()?;
        Ok(Relation { id, schema, name, identity, columns })
    }

    fn column(&mut self) -> Result<Column, Malformed> {
        let key = self.byte()? & 1 == 1;
        let (name, of) = (self.string()?, self.u32()?);
        Ok(Column { key, name, of, modifier: self.u32()?.cast_signed() })
    }

    fn insert(&mut self) -> Result<Message, Malformed> {
        let relation = self.u32()?;
        match self.byte()? {
            b'N' => Ok(Message::Insert { relation, new: self.tuple()? }),
            _ => Err(Malformed("an inserted row is missing")),
        }
    }

    fn update(&mut self) -> Result<Message, Malformed> {
        let relation = self.u32()?;
        let mut kind = self.byte()?;
        let mut old = None;
        if kind != b'N' {
            old = Some(self.old(kind)?);
            kind = self.byte()?;
        }
        match kind {
            b'N' => Ok(Message::Update { relation, old, new: self.tuple()? }),
            _ => Err(Malformed("an updated row is missing")),
        }
    }

    fn delete(&mut self) -> Result<Message, Malformed> {
        let (relation, kind) = (self.u32()?, self.byte()?);
        Ok(Message::Delete { relation, old: self.old(kind)? })
    }

    fn old(&mut self, kind: u8) -> Result<Old, Malformed> {
        match kind {
            b'K' => self.tuple().map(Old::Key),
            b'O' => self.tuple().map(Old::Full),
            _ => Err(Malformed("a row is neither old nor new")),
        }
    }

    fn tuple(&mut self) -> Result<Tuple, Malformed> {
        let count = self.u16()?;
        (0..count).map(|_| self.datum()).collect()
    }

    fn datum(&mut self) -> Result<Datum, Malformed> {
        match self.byte()? {
            b'n' => Ok(Datum::Null),
            b'u' => Ok(Datum::Unchanged),
            b't' => {
                let length = self.u32()? as usize;
                self.take(length).and_then(text).map(Datum::Text)
            }
            _ => Err(Malformed("a value has an unknown form")),
        }
    }

    fn truncate(&mut self) -> Result<Message, Malformed> {
        let count = self.u32()?;
        // Options: whether others were emptied with it, and whether sequences began anew.
        self.byte()?;
        Ok(Message::Truncate { relations: (0..count).map(|_| self.u32()).collect::<Result<_, _>>()? })
    }

    fn words(&mut self) -> Result<Message, Malformed> {
        let transactional = self.byte()? & 1 == 1;
        self.lsn()?;
        let prefix = self.string()?;
        let length = self.u32()? as usize;
        self.take(length)?;
        Ok(Message::Words { transactional, prefix })
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
#[path = "message/tests.rs"]
mod tests;
