//! The program from outside: what it says, where, and with which exit code.

#![allow(clippy::unwrap_used)]

mod shop;
mod handling;
mod server;

mod chaos;
mod config;
#[cfg(feature = "nats")]
mod nats;
mod sinks;
#[cfg(feature = "sqs")]
mod sqs;
mod sources;
mod feeds;
mod filters;
mod fleet;
mod first_starts;
mod hosts;
mod lost_stores;
mod leases;
mod metrics;
mod operating;
mod parked;
mod chains;
mod queues;
mod queues_removed;
mod gates;
mod side_by_side;
mod running;
mod secrets;
mod command;
mod webhook;
mod healing;
mod comes_again;
mod postgres;
mod wal;
#[cfg(feature = "dynamodb")]
mod aws;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod windows;
mod windows_postgres;
mod once;
mod once_feeds;
mod upgrades;
mod serve;
mod manual;
mod top;
mod alerts;
mod packages;
mod browser;
