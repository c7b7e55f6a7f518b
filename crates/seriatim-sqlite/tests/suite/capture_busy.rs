//! Writers that never pause do not keep a reader from its changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use seriatim::source::Start;

use crate::capture_kit::{File, Follower, LIMIT};

/// How many changes are handled while others write.
const ENOUGH: u64 = 2000;

/// Inserts in a tight loop until it is told to stop.
fn write(file: &std::path::Path, stop: &AtomicBool, written: &AtomicU64) {
    let connection = Connection::open(file).unwrap();
    connection.pragma_update(None, "synchronous", "off").unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    let mut insert = connection.prepare("insert into t (n) values (1)").unwrap();
    while !stop.load(Ordering::Relaxed) {
        insert.execute([]).unwrap();
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads until there is enough. Bounded by what is written, and not by time: machines differ.
async fn read(follower: &mut Follower, written: &AtomicU64) -> u64 {
    let mut handled = 0;
    while handled < ENOUGH && written.load(Ordering::Relaxed) < 20 * ENOUGH {
        if let Ok((changes, _)) = follower.try_read(LIMIT).await {
            handled += changes.len() as u64;
        }
    }
    handled
}

#[tokio::test]
async fn a_reader_keeps_up_with_writers_in_a_tight_loop() {
    let file = File::with("create table t (id integer primary key, n)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (path, stop, written) = (file.path(), &stop, &written);
    let handled = std::thread::scope(|scope| {
        let writers = [(); 2].map(|()| scope.spawn(|| write(&path, stop, written)));
        let reading = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(read(&mut follower, written))
        });
        let handled = reading.join();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        handled.unwrap()
    });
    let written = written.load(Ordering::Relaxed);
    assert!(handled >= ENOUGH, "{handled} handled of {written} written");
}

/// Writes a row each two milliseconds, and leaves the lock to others for some microseconds only.
fn write_slowly(file: &std::path::Path, stop: &AtomicBool, written: &AtomicU64) {
    let connection = Connection::open(file).unwrap();
    connection.pragma_update(None, "synchronous", "off").unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    while !stop.load(Ordering::Relaxed) {
        connection.execute_batch("begin immediate; insert into t (n) values (1)").unwrap();
        spin(2000);
        connection.execute_batch("commit").unwrap();
        written.fetch_add(1, Ordering::Relaxed);
        spin(60);
    }
}

fn spin(microseconds: u64) {
    let began = seriatim::clock::now();
    while began.elapsed() < std::time::Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_had_in_the_short_moments_between_two_writes() {
    let file = File::with("create table t (id integer primary key, n)");
    let mut follower = Follower::open(file.source().journal("t"), Start::Now).await;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (path, stop, written) = (file.path(), Arc::clone(&stop), Arc::clone(&written));
        std::thread::spawn(move || write_slowly(&path, &stop, &written))
    };
    let mut reads = 0;
    // SQLite's own way of waiting needs a thousand writes for each read.
    while reads < 10 && written.load(Ordering::Relaxed) < 3000 {
        if let Ok((changes, _)) = follower.try_read(LIMIT).await {
            reads += usize::from(!changes.is_empty());
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(reads, 10, "while {} rows were written", written.load(Ordering::Relaxed));
}
