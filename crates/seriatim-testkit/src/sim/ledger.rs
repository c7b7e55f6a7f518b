//! The ledger of signals as callers reach it: the library's own in memory, behind a network that fails.

use std::time::Duration;

use async_trait::async_trait;
use seriatim::once::{
    Claim, Completion, Cursor, Held, Ledger, Listing, MemoryLedger, Page, Record, Recorded, Resolution, Run,
    Signal, Started,
};
use seriatim::simulation::{Mutant, has};
use seriatim::store::StoreError;

use super::history::What;
use super::scheduler::Machine;
use super::world::{Link, here};

/// The number in the name of a signal.
pub fn signal_number(signal: &Signal) -> u32 {
    signal.id.as_str().trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(0)
}

/// The run that a result is of.
pub fn run_of(recorded: &Recorded) -> Option<u64> {
    match recorded {
        Recorded::Kept(bytes) => String::from_utf8_lossy(bytes).trim().parse().ok(),
        Recorded::NotKept(_) => None,
    }
}

/// The ledger as one life of a caller reaches it.
#[derive(Clone)]
pub struct SimLedger {
    /// What all callers share.
    pub inner: MemoryLedger,
    /// The way to it; none for one that never fails.
    pub link: Option<Link>,
}

impl SimLedger {
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        effect: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.link {
            Some(link) => link.call(name, effect).await,
            None => effect.await,
        }
    }

    fn machine(&self) -> Machine {
        self.link.as_ref().map_or(super::scheduler::WORLD, |link| link.machine)
    }
}

/// A record as this machine sees it.
fn seen_here(mut record: Record) -> Record {
    if has(Mutant::TimeOutByHostClock) {
        let offset = here().scheduler.offset().as_secs().max(0) as u64;
        record.stood_still += Duration::from_secs(offset);
    }
    record
}

async fn complete(
    ledger: &MemoryLedger,
    claim: &Claim,
    completion: &Completion,
    machine: Machine,
) -> Result<Held, StoreError> {
    let mut claim = claim.clone();
    if has(Mutant::CompleteWithoutAttempt)
        && let Some(record) = ledger.show(&claim.signal).await?
    {
        claim.attempt = record.run.attempt;
    }
    let held = ledger.complete(&claim, completion).await?;
    if let Some(run) = run_of(&completion.result) {
        let (signal, recorded) = (signal_number(&claim.signal), held == Held::Kept);
        here().record_on(machine, What::Completed { signal, run, recorded });
    }
    Ok(held)
}

#[async_trait]
impl Ledger for SimLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        let (ledger, claim, mut replacing) = (self.inner.clone(), claim.clone(), replacing.cloned());
        let start = async move {
            if has(Mutant::TakeOverWithoutCompare) && replacing.is_some() {
                replacing = ledger.show(&claim.signal).await?.map(|record| record.run);
            }
            ledger.start(&claim, replacing.as_ref()).await
        };
        Ok(match self.call("start", start).await? {
            Started::Found(record) => Started::Found(Box::new(seen_here(*record))),
            claimed => claimed,
        })
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let (ledger, claim) = (self.inner.clone(), claim.clone());
        self.call("extend", async move { ledger.extend(&claim).await }).await
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let (ledger, machine) = (self.inner.clone(), self.machine());
        let (claim, completion) = (claim.clone(), completion.clone());
        self.call("complete", async move { complete(&ledger, &claim, &completion, machine).await }).await
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let (ledger, claim) = (self.inner.clone(), claim.clone());
        self.call("fail", async move { ledger.fail(&claim).await }).await
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let (ledger, signal, seen) = (self.inner.clone(), signal.clone(), seen.clone());
        self.call("doubt", async move { ledger.doubt(&signal, &seen).await }).await
    }

    async fn resolve(&self, signal: &Signal, seen: &Run, how: &Resolution) -> Result<bool, StoreError> {
        self.inner.resolve(signal, seen, how).await
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        self.inner.forget(signal, seen).await
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let (ledger, signal) = (self.inner.clone(), signal.clone());
        let shown = self.call("show", async move { ledger.show(&signal).await }).await?;
        Ok(shown.map(seen_here))
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        self.inner.list(listing, from).await
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        self.inner.sweep(at_most).await
    }
}
