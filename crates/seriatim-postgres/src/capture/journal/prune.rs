//! Notes what a consumer has handled, and forgets what nobody needs any more: whole tables of the ring at once.

use seriatim::change::Position;
use seriatim::source::Consumer;

use super::super::error::Fault;
use super::super::kind::Base;
use super::super::registry::{self, Registration};
use super::backfill::index;
use super::position::Place;

const CONSUMED: &str = include_str!("../../../queries/consumer_consumed.sql");
const PRUNE: &str = include_str!("../../../queries/journal_prune.sql");
const FILLED: &str = include_str!("../../../queries/consumer_filled.sql");

/// A table of the ring that is larger gives way to the next one.
const TURN_AT: i64 = 16 << 20;

/// Notes the positions and prunes. Returns about how many rows are gone.
pub(super) async fn consumed(base: &Base, consumer: &Consumer, positions: &[Position]) -> Result<u64, Fault> {
    let mut client = base.database.client().await?;
    let unknown = || base.settings.names.not_registered(consumer.store.as_str());
    let registration =
        registry::registration(&client, &base.database, consumer).await?.ok_or_else(unknown)?;
    let slowest = slowest(base, positions, &registration)?;
    let note = client.prepare_cached(&base.database.sql(CONSUMED)).await?;
    client.execute(&note, &[&registration.id, &slowest.tick]).await?;
    let id = registration.capture;
    if slowest.filled && client.execute(&*base.database.sql(FILLED), &[&registration.id]).await? > 0 {
        index::drop_unneeded(base, &mut client, id).await?;
    }
    let prune = client.prepare_cached(&base.database.sql(PRUNE)).await?;
    let pruned: i64 = client.query_one(&prune, &[&id, &TURN_AT]).await?.get(0);
    Ok(pruned.max(0) as u64)
}

/// Notes that a consumer goes on from another position, which is retained.
pub(super) async fn moved_to(
    base: &Base,
    client: &crate::database::Client,
    registration: &Registration,
    position: &Position,
) -> Result<(), Fault> {
    let slowest = slowest(base, std::slice::from_ref(position), registration)?;
    registry::begins(client, &base.database, registration.id, position).await?;
    client.execute(&*base.database.sql(CONSUMED), &[&registration.id, &slowest.tick]).await?;
    Ok(())
}

/// What all partitions have behind them.
struct Slowest {
    tick: i64,
    /// None of them still reads existing rows.
    filled: bool,
}

/// A partition that still reads existing rows needs every change since it began.
fn slowest(base: &Base, positions: &[Position], registration: &Registration) -> Result<Slowest, Fault> {
    let mut slowest: Option<i64> = None;
    let mut filled = true;
    for position in positions {
        let place = Place::parse(position).map(Place::settled);
        let place = place.ok_or_else(|| base.settings.names.not_a_position(position))?;
        filled &= place.filling.is_none();
        let tick = if place.filling.is_some() { registration.since } else { place.live.from };
        slowest = Some(slowest.map_or(tick, |slowest| slowest.min(tick)));
    }
    Ok(Slowest { tick: slowest.unwrap_or(registration.consumed), filled: filled && slowest.is_some() })
}
