//! Hosts over a processor's windows: records that carry the moment of their last change, in transactions that commit late.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use seriatim::host::Host;
use seriatim::simulation::{Mutant, has};
use seriatim::source::SourceError;
use seriatim::source::window::{Age, Processor, Result, Tie, Window, Windows};
use seriatim::store::StoreError;

use super::feeds::Patience;
use super::history::What;
use super::plan::Plan;
use super::store::{ModelStore, SimStore};
use super::world::{Link, World, draw, here, record};

#[derive(Clone, Debug)]
struct Record {
    id: u64,
    version: u64,
    changed_at: Timestamp,
}

#[derive(Debug, Default)]
struct Rows {
    committed: BTreeMap<u64, Record>,
    /// When each open transaction began, by its number; and the records that it has locked.
    open: BTreeMap<u64, (Timestamp, Vec<Record>)>,
    processed: BTreeMap<u64, u64>,
}

/// A table; clones share it.
#[derive(Clone, Debug, Default)]
struct Table(Arc<Mutex<Rows>>);

impl Table {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, transaction: u64, ids: &[u64]) {
        let now = here().scheduler.true_time();
        let mut rows = self.rows();
        let is_locked =
            |id: &u64| rows.open.values().any(|(_, locked)| locked.iter().any(|record| record.id == *id));
        let mut free: Vec<u64> = ids.iter().copied().filter(|id| !is_locked(id)).collect();
        free.sort();
        free.dedup();
        let next = |id: u64| rows.committed.get(&id).map_or(1, |record| record.version + 1);
        let written = free.iter().map(|id| Record { id: *id, version: next(*id), changed_at: now }).collect();
        rows.open.insert(transaction, (now, written));
    }

    fn commit(&self, transaction: u64) {
        let mut rows = self.rows();
        let (_, written) = rows.open.remove(&transaction).unwrap_or_default();
        for row in written {
            record(What::Written { record: row.id, version: row.version });
            rows.committed.insert(row.id, row);
        }
    }

    /// Up to here nobody writes any more.
    fn horizon(&self) -> Timestamp {
        let now = here().scheduler.true_time();
        let oldest = self.rows().open.values().map(|(began, _)| *began).min();
        if has(Mutant::HorizonIgnored) { now } else { oldest.unwrap_or(now).min(now) }
    }

    fn fetch(&self, window: &Window) -> Vec<Record> {
        let rows = self.rows();
        let after = |record: &Record| {
            let place = (record.changed_at, tie(record).to_string());
            match &window.after {
                Some(tie) => place > (window.from, tie.to_string()),
                None => record.changed_at >= window.from,
            }
        };
        let mut found: Vec<Record> = rows
            .committed
            .values()
            .filter(|record| after(record) && record.changed_at < window.to)
            .cloned()
            .collect();
        found.sort_by_key(|record| (record.changed_at, record.id));
        found.truncate(window.limit);
        found
    }

    fn is_done(&self) -> bool {
        let rows = self.rows();
        rows.open.is_empty()
            && rows.committed.values().all(|record| rows.processed.get(&record.id) == Some(&record.version))
    }
}

fn tie(record: &Record) -> Tie {
    Tie::from(format!("{:04}", record.id).as_str())
}

struct Processing {
    table: Table,
    link: Link,
}

impl Processor for Processing {
    type Record = Record;
    const EXCESSIVE_COUNT: usize = 3;
    const STALE_AGE: Age = Age::Infinite;

    async fn fetch(&self, window: Window) -> Result<Vec<Record>> {
        let table = self.table.clone();
        let fetched = async move { Ok::<_, StoreError>(table.fetch(&window)) };
        Ok(self.link.call("fetch", fetched).await?)
    }

    async fn process(&self, records: Vec<Record>) -> Result<()> {
        here().coverage.borrow_mut().calls(self.link.machine, "process");
        let (time, fails) =
            draw(|random| (if random.u8(..4) == 0 { random.u64(..3_000) } else { 0 }, random.u8(..8)));
        if time > 0 {
            tokio::time::sleep(Duration::from_millis(time)).await;
        }
        if fails == 0 && !here().is_cured() {
            return Err("no".into());
        }
        for row in records {
            record(What::Processed { record: row.id, version: row.version });
            let mut rows = self.table.rows();
            let processed = rows.processed.entry(row.id).or_default();
            *processed = row.version.max(*processed);
        }
        Ok(())
    }

    fn changed_at(&self, record: &Record) -> Timestamp {
        record.changed_at
    }

    fn tie(&self, record: &Record) -> Option<Tie> {
        Some(tie(record))
    }
}

/// Sets the scene.
pub fn set(world: &Rc<World>) {
    let plan = world.plan.clone();
    let (table, model) = (Table::default(), ModelStore::new(plan.tells_dead));
    write_records(world, &plan, &table);
    world.spawn(watch(table.clone(), plan.chaos));
    world.start_hosts(Box::new(move |link, stop| {
        let store = SimStore { model: model.clone(), link: link.clone() };
        let processing = Processing { table: table.clone(), link: link.clone() };
        let (clock_of, way) = (table.clone(), link.clone());
        let clock = move || {
            let (table, way) = (clock_of.clone(), way.clone());
            async move {
                let now = async move { Ok::<_, StoreError>(table.horizon()) };
                way.call("ask the time", now)
                    .await
                    .map_err(|error| SourceError::unavailable("the time", error))
            }
        };
        let windows = Windows::new("w0", processing, clock)
            .and_then(|windows| windows.buffer(Duration::from_millis(20)))
            .expect("settings that can work");
        let host = Host::new(&link.name, Arc::new(store)).windows(windows.timeout(Duration::from_secs(5)));
        let this = link.clone();
        here().scheduler.spawn_on(link.machine, async move {
            let ended = host.run_until(async move { stop.notified().await }).await;
            let how = ended.map_or_else(|error| error.to_string(), |()| "as asked".to_owned());
            here().ended(&this, how);
        });
    }));
}

fn write_records(world: &Rc<World>, plan: &Plan, table: &Table) {
    for transaction in 0..plan.changes as u64 {
        let (at, open, ids) = world.draw(|random| {
            let ids: Vec<u64> = (0..random.usize(1..=3)).map(|_| random.u64(..8)).collect();
            let open = match random.u8(..10) {
                0..2 => random.u64(..10_000),
                2..5 => random.u64(..400),
                _ => 0,
            };
            (random.u64(..plan.burst), open, ids)
        });
        let table = table.clone();
        world.spawn(async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            table.write(transaction, &ids);
            tokio::time::sleep(Duration::from_millis(open)).await;
            table.commit(transaction);
        });
    }
}

async fn watch(table: Table, chaos: u64) {
    tokio::time::sleep(Duration::from_millis(chaos)).await;
    here().calm_down();
    here().cure();
    let mut patience = Patience::new();
    while !table.is_done() && patience.lasts().await {}
    record(What::Over);
    here().scheduler.finish();
}
