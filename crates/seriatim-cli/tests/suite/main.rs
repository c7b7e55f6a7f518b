//! The program from outside: what it says, where, and with which exit code.

#![allow(clippy::unwrap_used)]

mod shop;

mod config;
mod sources;
mod feeds;
mod hosts;
mod leases;
mod queues;
mod running;
