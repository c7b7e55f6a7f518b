//! Writers that never pause do not keep a reader from its changes.

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
