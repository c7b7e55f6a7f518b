//! Running an effect's statements for many changes without waiting for each.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use deadpool_postgres::Transaction as Pooled;
use seriatim::backend::Parameter;
use seriatim::change::Change;
use seriatim::handler::Failure;
use tokio_postgres::{Statement as Plan, Transaction};

use super::bind::{Text, text};
use super::{failure, lexer};

/// How many statements are on their way at once: enough that nobody waits for a round trip, few enough to fit in memory.
const ON_THE_WAY: usize = 256;

/// Where statements run.
pub(super) struct On<'a> {
    pub transaction: &'a Transaction<'a>,
    /// Its connection remembers what was prepared on it.
    pub pooled: Option<&'a Pooled<'a>>,
}

impl On<'_> {
    async fn prepare(&self, statement: &lexer::Statement) -> Result<Plan, tokio_postgres::Error> {
        match self.pooled {
            Some(pooled) => pooled.prepare_typed_cached(&statement.text, &statement.types).await,
            None => self.transaction.prepare_typed(&statement.text, &statement.types).await,
        }
    }

    pub(super) fn forget(pooled: &Pooled<'_>, statement: &lexer::Statement) {
        drop(pooled.statement_cache.remove(&statement.text, &statement.types));
    }
}

/// The statements of a text, as the server has prepared them.
pub(super) struct Prepared {
    statements: Vec<(Plan, Vec<Parameter>)>,
}

impl Prepared {
    pub(super) async fn new(
        on: &On<'_>,
        statements: &[lexer::Statement],
    ) -> Result<Self, tokio_postgres::Error> {
        let mut prepared = Vec::with_capacity(statements.len());
        for statement in statements {
            let parameters = statement.parameters.iter().map(|name| Parameter::named(name)).collect();
            prepared.push((on.prepare(statement).await?, parameters));
        }
        Ok(Prepared { statements: prepared })
    }

    /// Sends the statements for one change, the so-manieth of its batch. `columns` is how many the table has.
    pub(super) async fn send<'a>(
        &mut self,
        (index, change): (usize, &Change),
        columns: usize,
        pipeline: &mut Pipeline<'a>,
        transaction: &'a Transaction<'a>,
    ) -> Result<(), Failure> {
        for (plan, parameters) in &mut self.statements {
            let types = plan.params().iter();
            let values = parameters.iter_mut().zip(types);
            let values: Result<Vec<Text>, _> =
                values.map(|(parameter, of)| text(parameter, change, columns, of)).collect();
            let values = values.map_err(failure::of_missing)?;
            let plan = plan.clone();
            let answer = async move { transaction.execute_raw(&plan, values).await };
            pipeline.push(index, Box::pin(answer)).await?;
        }
        Ok(())
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send + 'a>>;

/// Statements that were sent and are not answered yet, in their order.
#[derive(Default)]
pub(super) struct Pipeline<'a> {
    /// With the place of its change in the batch.
    waiting: VecDeque<(usize, Answer<'a>)>,
}

impl<'a> Pipeline<'a> {
    /// Sends a statement after those before it; returns the failure of an earlier one if there is no room.
    async fn push(&mut self, index: usize, mut answer: Answer<'a>) -> Result<(), Failure> {
        if self.waiting.len() >= ON_THE_WAY {
            self.await_first().await?;
        }
        // The first poll sends it: so they are sent in this order.
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(Err(cause)) => {
                // Something is wrong already; who was first to fail says what.
                self.finish().await?;
                Err(failure::of_change(index, cause))
            }
            Poll::Ready(Ok(_)) => Ok(()),
            Poll::Pending => {
                self.waiting.push_back((index, answer));
                Ok(())
            }
        }
    }

    async fn await_first(&mut self) -> Result<(), Failure> {
        match self.waiting.pop_front() {
            None => Ok(()),
            Some((index, answer)) => answer.await.map(drop).map_err(|cause| failure::of_change(index, cause)),
        }
    }

    /// Waits for all answers; the first that failed is the one that counts, those after it failed because of it.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        while !self.waiting.is_empty() {
            self.await_first().await?;
        }
        Ok(())
    }
}
