//! What an event costs in a queue where many objects wait, against one where few do: both at the same time on one server, by turns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use seriatim::clock;
use seriatim::name::{HostName, ObjectName};
use seriatim::queue::{Body, Event, Queue, Take, WorkerSession};
use seriatim_redis::{Prefix, Redis, RedisQueue};

use crate::Row;
use crate::queue_redis::Server;
use crate::rounds::Rounds;

const FEW: usize = 10;
const MANY: usize = 1_000_000;
const ROUNDS: usize = 15;
/// Events of a round, one after another.
const EVENTS: usize = 2_000;
/// How many push at the same time while a queue is filled.
const PRODUCERS: usize = 64;

/// Measures it; the value is microseconds for an event among many objects, the limit that among few.
pub(crate) async fn growth(server: &Server, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Row> {
    progress(&format!("queues of {FEW} and of {MANY} objects on Redis"));
    let (few, many) = (Filled::with(server, FEW).await?, Filled::with(server, MANY).await?);
    let mut rounds = Rounds::default();
    for round in 1..=ROUNDS {
        progress(&format!("{EVENTS} events among {FEW} and among {MANY} objects, round {round} of {ROUNDS}"));
        let limit = few.microseconds().await?;
        rounds.add(many.microseconds().await?, limit);
    }
    let (value, limit) = rounds.middle();
    few.queue.forget().await?;
    many.queue.forget().await?;
    Ok(Row::new("growth-queue-redis", value, "µs/event", limit, 1.3))
}

/// A queue in which so many objects wait.
struct Filled {
    queue: Arc<RedisQueue>,
    session: WorkerSession,
}

impl Filled {
    async fn with(server: &Server, objects: usize) -> anyhow::Result<Self> {
        let prefix = Prefix::tagged(&format!("bench-{:x}", fastrand::u64(..)))?;
        let queue = Arc::new(RedisQueue::open(Redis::connect(&server.url()).await?, prefix)?);
        let mut filling = tokio::task::JoinSet::new();
        for part in 0..PRODUCERS {
            let queue = Arc::clone(&queue);
            filling.spawn(async move {
                for number in (part..objects).step_by(PRODUCERS) {
                    queue.push(&ObjectName::new(&format!("work:{number}"))?, &[Body::from("{}")]).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(filled) = filling.join_next().await {
            filled??;
        }
        let session = queue.join(&HostName::new("bench")?, Duration::from_secs(10), None).await?;
        Ok(Filled { queue, session })
    }

    /// Each event is taken, sent nowhere and recorded, and its object gets another: as many wait as before.
    async fn microseconds(&self) -> anyhow::Result<f64> {
        let began = clock::now();
        for _ in 0..EVENTS {
            let Take::Taken(taken) = self.queue.take(&self.session, 1).await? else { bail!("nothing waits") };
            self.queue.next(&taken.hold, taken.events.last().map(Event::id), 1).await?;
            self.queue.push(&taken.hold.object, &[Body::from("{}")]).await?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e6 / EVENTS as f64)
    }
}
