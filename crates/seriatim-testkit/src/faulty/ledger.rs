//! A ledger of signals with faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use seriatim::once::{
    Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Resolution, Run, Signal, Started,
};
use seriatim::store::StoreError;

use super::plan::Plan;
use super::{Fault, Hold, Odds};

/// An operation of the ledger, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum LedgerOperation {
    Start,
    Extend,
    Complete,
    Fail,
    Doubt,
    Resolve,
    Forget,
    Show,
    List,
    Sweep,
}

/// A ledger that does what another ledger does, except where it was told to fail.
pub struct FaultyLedger {
    ledger: Arc<dyn Ledger>,
    plan: Mutex<Plan<LedgerOperation>>,
}

impl FaultyLedger {
    /// A ledger without faults, so far.
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        FaultyLedger { ledger, plan: Mutex::new(Plan::default()) }
    }

    /// The next call of this operation meets the fault; those after it do not. Several calls add up, in order.
    pub fn next(&self, operation: LedgerOperation, fault: Fault) {
        self.plan().next(operation, fault);
    }

    /// Every call of this operation meets the fault, until [`FaultyLedger::heal`].
    pub fn always(&self, operation: LedgerOperation, fault: Fault) {
        self.plan().always(operation, fault);
    }

    /// Ends what [`FaultyLedger::always`] and [`FaultyLedger::at_random`] have begun.
    pub fn heal(&self) {
        self.plan().heal();
    }

    /// The next call of this operation waits, before it takes effect, until the hold is let go.
    pub fn hold(&self, operation: LedgerOperation) -> Hold {
        let hold = Hold::default();
        self.next(operation, Fault::Hold(hold.clone()));
        hold
    }

    /// Faults are drawn from the seed, with these odds, for each call that meets no other fault.
    pub fn at_random(&self, seed: u64, odds: Odds) {
        self.plan().at_random(seed, odds);
    }

    /// How often the operation was called, faults included.
    pub fn calls(&self, operation: LedgerOperation) -> u64 {
        self.plan().calls(operation)
    }

    fn plan(&self) -> MutexGuard<'_, Plan<LedgerOperation>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass<T>(
        &self,
        operation: LedgerOperation,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let injected =
            |what: &str| StoreError::unavailable(format!("{operation:?}"), format!("injected fault: {what}"));
        let fault = self.plan().draw(operation);
        match fault {
            None => call.await,
            Some(Fault::Before) => Err(injected("not done")),
            Some(Fault::After) => {
                call.await?;
                Err(injected("done, and the answer lost"))
            }
            Some(Fault::Hold(hold)) => {
                hold.wait().await;
                call.await
            }
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
        }
    }
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        self.pass(LedgerOperation::Start, self.ledger.start(claim, replacing)).await
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        self.pass(LedgerOperation::Extend, self.ledger.extend(claim)).await
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        self.pass(LedgerOperation::Complete, self.ledger.complete(claim, completion)).await
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        self.pass(LedgerOperation::Fail, self.ledger.fail(claim)).await
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        self.pass(LedgerOperation::Doubt, self.ledger.doubt(signal, seen)).await
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        self.pass(LedgerOperation::Resolve, self.ledger.resolve(signal, seen, resolution)).await
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        self.pass(LedgerOperation::Forget, self.ledger.forget(signal, seen)).await
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        self.pass(LedgerOperation::Show, self.ledger.show(signal)).await
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        self.pass(LedgerOperation::List, self.ledger.list(listing, from)).await
    }

    async fn sweep(&self, at_most: usize) -> Result<usize, StoreError> {
        self.pass(LedgerOperation::Sweep, self.ledger.sweep(at_most)).await
    }

    fn largest_result(&self) -> usize {
        self.ledger.largest_result()
    }
}
