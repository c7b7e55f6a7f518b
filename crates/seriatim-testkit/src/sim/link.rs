//! Calls over a network that fails: each takes effect in the world, whatever becomes of the process that made it.

use std::future::Future;
use std::time::Duration;

use seriatim::store::StoreError;
use tokio::sync::oneshot;

use super::history::What;
use super::plan::CallFault;
use super::world::{Fate, Link, draw, here};

/// How long it takes to find out that nobody answers.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Link {
    /// Makes a call that takes effect when `effect` runs.
    pub async fn call<T, E>(
        &self,
        call: &'static str,
        effect: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let fate = {
            let world = here();
            world.coverage.borrow_mut().calls(self.machine, call);
            world.fate(self, call)
        };
        let noted = |fault| {
            let world = here();
            world.coverage.borrow_mut().call_fault(fault);
            world.record_on(self.machine, What::CallFault { call, fault });
        };
        match fate {
            Fate::Prompt => {
                self.travel().await;
                effect.await
            }
            Fate::Unreachable => {
                noted("cut off");
                tokio::time::sleep(TIMEOUT).await;
                Err(lost(call).into())
            }
            Fate::Fault(CallFault::Before) => {
                noted("fails");
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(lost(call).into())
            }
            Fate::Fault(CallFault::After) => {
                noted("answer lost");
                effect.await?;
                Err(lost(call).into())
            }
            Fate::Fault(CallFault::Slow(there, back)) => {
                noted("slow");
                let (answer, answered) = oneshot::channel();
                here().spawn(async move {
                    tokio::time::sleep(Duration::from_millis(there)).await;
                    let result = effect.await;
                    tokio::time::sleep(Duration::from_millis(back)).await;
                    drop(answer.send(result));
                });
                match answered.await {
                    Ok(result) => result,
                    Err(_) => Err(lost(call).into()),
                }
            }
            Fate::Fault(CallFault::Late(there)) => {
                noted("late");
                here().spawn(async move {
                    tokio::time::sleep(Duration::from_millis(there)).await;
                    // Nobody waits for the answer.
                    drop(effect.await);
                });
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(lost(call).into())
            }
        }
    }

    /// The usual way takes a moment now and then, so that others come in between.
    async fn travel(&self) {
        let moment = draw(|random| if random.u8(..6) == 0 { random.u64(..30) } else { 0 });
        if moment > 0 {
            tokio::time::sleep(Duration::from_millis(moment)).await;
        }
    }
}

fn lost(call: &str) -> StoreError {
    StoreError::unavailable(call, "injected fault")
}
