//! `stdout = true`: one line of JSON for each change.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim_handlers::{Guarantee, Sink, Stdout};
use tokio::sync::Notify;

use super::sinks::{Place, SinkKind, SinkSettings};
use crate::error::Result;

pub const SINK: SinkKind = SinkKind {
    key: "stdout",
    example: "stdout = true",
    settings: &[],
    sections: &[],
    read: |_, _| Ok(Arc::new(ToStdout)),
};

#[derive(Debug)]
struct ToStdout;

#[async_trait]
impl SinkSettings for ToStdout {
    async fn guarantee(&self, _: &Place<'_>) -> Guarantee {
        Stdout::guarantee()
    }

    fn may_be_remembered(&self) -> bool {
        false
    }

    fn check(&self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    async fn reach(&self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    async fn open(&self, place: &Place<'_>, closed: &Arc<Notify>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Stdout::new(Arc::clone(closed)).in_form(place.envelope())))
    }
}
