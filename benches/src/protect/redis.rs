//! The same on Redis, against the same keys written without a look at what is there.

use std::sync::Arc;

use seriatim::clock;
use seriatim::once::AttemptId;
use seriatim_redis::redis::{self, aio::MultiplexedConnection};
use seriatim_redis::{Prefix, Redis, RedisLedger};
use seriatim_testkit::servers;

use super::{REMEMBERED, ROUNDS, Rounds, SIGNALS, protect, rows};
use crate::Row;

/// So many signals are remembered by one script: everybody waits for it.
const FILLED_AT_ONCE: i64 = 10_000;
const FILL: &str = include_str!("../../sql/once_fill.lua");

/// Measures it on a throw-away server, and how much slower it is with a million signals in it. Says so and measures nothing where
/// the server is not installed.
pub(crate) async fn on_redis(growth: bool, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Row>> {
    let server = match servers::Redis::start() {
        Ok(server) => server,
        Err(missing) => {
            progress(&format!("left out protect-redis: {missing}"));
            return Ok(Vec::new());
        }
    };
    progress("preparing ledgers on Redis");
    let redis = Redis::connect(&server.url()).await?;
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let ledger = |name: &str| -> anyhow::Result<Arc<RedisLedger>> {
        Ok(Arc::new(RedisLedger::open(redis.clone(), Prefix::tagged(name)?)?))
    };
    let empty = ledger("empty")?;
    let full = match growth {
        true => Some(ledger("full")?),
        false => None,
    };
    if growth {
        for from in (0..REMEMBERED).step_by(FILLED_AT_ONCE as usize) {
            let fill = redis::Script::new(FILL);
            let mut filling = fill.key("{full}:once.index");
            filling.arg("{full}:").arg(from).arg(FILLED_AT_ONCE);
            filling.invoke_async::<()>(&mut connection).await?;
        }
    }
    let (mut limit, mut value, mut when_full) = (Rounds::default(), Rounds::default(), Rounds::default());
    for round in 0..ROUNDS {
        progress(&format!("protecting effects on Redis, round {} of {ROUNDS}", round + 1));
        limit.add(bare_writes(&mut connection, round).await?);
        value.add(protect(empty.clone(), round).await?);
        if let Some(full) = &full {
            when_full.add(protect(full.clone(), round).await?);
        }
    }
    Ok(rows("redis", limit, value, when_full))
}

async fn bare_writes(connection: &mut MultiplexedConnection, round: usize) -> anyhow::Result<f64> {
    let began = clock::now();
    for number in 0..SIGNALS {
        let signal = format!("bench\nbare {round} {number}");
        let key = format!("{{bare}}:once:{signal}");
        let attempt = AttemptId::random();
        let claimed = [
            ("state", "running"),
            ("attempt", attempt.as_str()),
            ("number", "1"),
            ("beat", "0"),
            ("started_at", "1700000000000000"),
            ("limit", "30000"),
            ("beat_at", "1700000000000000"),
            ("life", "0123456789abcdef0123456789abcdef01234567"),
        ];
        let mut start = redis::pipe();
        start.atomic().hset_multiple(&key, &claimed).ignore();
        start.zadd("{bare}:once.index", &signal, 0).ignore();
        start.zadd("{bare}:once.removable", &signal, 4_000_000_000i64).ignore();
        start.query_async::<()>(connection).await?;
        let done = [
            ("state", "completed"),
            ("completed_at", "1700000000000000"),
            ("kept", "1"),
            ("result", "\"done\""),
            ("expires_on", "4000000001"),
        ];
        let mut complete = redis::pipe();
        complete.atomic().hset_multiple(&key, &done).ignore();
        complete.zadd("{bare}:once.removable", &signal, 4_000_000_001i64).ignore();
        complete.query_async::<()>(connection).await?;
    }
    Ok(SIGNALS as f64 / began.elapsed().as_secs_f64())
}
