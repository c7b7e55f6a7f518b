//! G1 for windows: they see the latest state of each record, and miss none.

use std::collections::BTreeMap;

use super::Checker;
use crate::sim::history::{Entry, What};

/// Follows the latest version of each record.
#[derive(Default)]
pub struct Windows {
    written: BTreeMap<u64, u64>,
    processed: BTreeMap<u64, u64>,
}

impl Checker for Windows {
    fn guarantee(&self) -> &'static str {
        "G1 of windows"
    }

    fn see(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.what {
            What::Written { record, version } => {
                self.written.insert(*record, *version);
            }
            What::Processed { record, version } => {
                if self.written.get(record).is_none_or(|written| written < version) {
                    return Err(format!(
                        "version {version} of record {record} was processed and not written"
                    ));
                }
                let processed = self.processed.entry(*record).or_default();
                *processed = (*processed).max(*version);
            }
            What::Over => {
                for (record, version) in &self.written {
                    if self.processed.get(record) != Some(version) {
                        return Err(format!("version {version} of record {record} was never processed"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
