//! Writers: random inserts, updates and deletes of a few objects, in transactions that take their time, are rolled back, or
//! commit late. What they committed is in the database itself, so that a commit nobody heard the answer of is known too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::database::{Address, Database};
use super::journal::{Journal, Said, Seen};
use super::plan::{Plan, Source};
use super::trouble::Trouble;

/// `revisions` counts each object's changes, under the lock of its row: so an object's commits are in its order.
/// `truth` says which of them were committed, and by whom.
pub const TABLES: &str = "
create table items (id integer primary key, revision bigint, token text);
create table revisions (id integer primary key, revision bigint);
create table truth (id integer, revision bigint, token text);
create table poison (id integer);";

/// Threads that write until they are stopped.
pub struct Writers {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Writers {
    /// Starts them.
    pub fn start(plan: &Plan, address: &Address, journal: &Journal) -> Result<Self, Trouble> {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for number in 0..plan.writers {
            let mut writer = Writer {
                number,
                keys: plan.keys,
                serial: plan.source == Source::Sqlite,
                address: address.clone(),
                journal: journal.again()?,
                random: Rng::with_seed(plan.seed ^ (u64::from(number) + 1) << 32),
                tokens: 0,
                written: Arc::clone(&written),
            };
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || writer.write(&stop)));
        }
        Ok(Writers { stop, written, threads })
    }

    /// How many changes they have committed, as far as they know.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Stops them and waits for the end of what they are at.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Writer {
    number: u32,
    keys: u32,
    /// Only one transaction can write at a time: none is kept open for long.
    serial: bool,
    address: Address,
    journal: Journal,
    random: Rng,
    tokens: u64,
    written: Arc<AtomicU64>,
}

impl Writer {
    fn write(&mut self, stop: &AtomicBool) {
        let mut database = None;
        while !stop.load(Ordering::Acquire) {
            database = match database {
                None => Database::open(&self.address).ok(),
                // Whatever happened to it, the connection is not trusted any more.
                Some(connected) => self.transaction(&connected).is_ok().then_some(connected),
            };
            std::thread::sleep(Duration::from_millis(self.random.u64(2..30)));
        }
    }

    fn transaction(&mut self, database: &Database) -> Result<(), Trouble> {
        database.execute(if self.serial { "begin immediate" } else { "begin" })?;
        let mut keys: Vec<u32> = (0..self.random.u32(1..=4)).map(|_| self.random.u32(..self.keys)).collect();
        // In one order, so that no two wait for each other.
        keys.sort_unstable();
        let made = keys.into_iter().map(|key| self.change(database, key)).collect::<Result<Vec<_>, _>>()?;
        let late = match self.random.u8(..12) {
            0 if !self.serial => self.random.u64(..600),
            0..3 => self.random.u64(..20),
            _ => 0,
        };
        std::thread::sleep(Duration::from_millis(late));
        if self.random.u8(..10) == 0 {
            return database.execute("rollback");
        }
        let count = made.len() as u64;
        for seen in made {
            self.journal.note(0, Said::Writing(seen))?;
        }
        database.execute("commit")?;
        self.written.fetch_add(count, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the next change of an object.
    fn change(&mut self, database: &Database, key: u32) -> Result<Seen, Trouble> {
        database.execute(&format!("update revisions set revision = revision + 1 where id = {key}"))?;
        let found = database.rows(&format!(
            "select revisions.revision, items.token from revisions left join items on items.id = revisions.id
             where revisions.id = {key}"
        ))?;
        let [revision, old] = found.first().map(Vec::as_slice).unwrap_or_default() else {
            return Err(Trouble::new(format!("object {key} has no revision")));
        };
        self.tokens += 1;
        let mine = format!("w{}-{}", self.number, self.tokens);
        let (sql, token) = match (old.is_empty(), self.random.u8(..8)) {
            (true, _) => (format!("insert into items values ({key}, {revision}, '{mine}')"), mine),
            (false, 0) => (format!("delete from items where id = {key}"), old.clone()),
            (false, _) => {
                (format!("update items set revision = {revision}, token = '{mine}' where id = {key}"), mine)
            }
        };
        database.execute(&sql)?;
        database.execute(&format!("insert into truth values ({key}, {revision}, '{token}')"))?;
        let revision = revision.parse().map_err(|_| Trouble::new("a revision is no number"))?;
        Ok(Seen { key, revision, token, link: (0, 0) })
    }
}
