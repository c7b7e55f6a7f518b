//! Seriatim on DynamoDB.
//!
//! - [`DynamoDbLedger`]: the ledger of signals that were handled, in one table.
//! - [`Address`]: which table, where, and by which right: from a URL and the usual environment variables.
//! - [`Table`]: makes the table, or prints what makes it (CloudFormation, Terraform).
//!
//! Every write is one conditional write, every read a consistent one.

mod address;
mod clock;
mod error;
mod once;
mod table;

/// The client that this crate speaks to DynamoDB with, for a client of one's own: see [`DynamoDbLedger::with_client`].
pub use aws_sdk_dynamodb;

pub use address::{Address, BadAddress};
pub use once::DynamoDbLedger;
pub use table::Table;
