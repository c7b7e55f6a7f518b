//! Seriatim on DynamoDB.
//!
//! - [`DynamoDbStore`]: the store of feeds: leases, checkpoints, what is parked.
//! - [`DynamoDbLedger`]: the ledger of signals that were handled. Both may share one table.
//! - [`Address`]: which table, where, and by which right: from a URL and the usual environment variables.
//! - [`Table`]: makes the table, or prints what makes it (CloudFormation, Terraform).
//!
//! Every write is a conditional write, every read a consistent one.

mod address;
mod clock;
mod credentials;
mod error;
mod item;
mod once;
mod store;
mod table;
mod write;

/// The client that this crate speaks to DynamoDB with, for a client of one's own: see [`DynamoDbLedger::with_client`].
pub use aws_sdk_dynamodb;

pub use address::{Address, BadAddress};
pub use once::DynamoDbLedger;
pub use store::{DynamoDbStore, Purged};
pub use table::Table;
