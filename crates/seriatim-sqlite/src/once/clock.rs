//! The clock of a SQLite file: its machine's kernel, which all processes on the file share.

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The time by the machine's kernel.
#[derive(Clone, Debug)]
pub(super) struct Now {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Which run of the machine it is, and the milliseconds since it began. Nobody can set this clock, and two processes on
    /// one machine read the same; `None` where a system cannot say which run it is.
    pub boot: Option<(String, i64)>,
}

impl Now {
    /// Asks the kernel itself.
    pub(super) fn ask(boot: Option<&str>) -> Self {
        let since_boot = || milliseconds(ClockId::Monotonic);
        Now { wall: milliseconds(ClockId::Realtime), boot: boot.map(|boot| (boot.to_owned(), since_boot())) }
    }

    /// Seconds since 1970.
    pub(super) fn second(&self) -> i64 {
        self.wall.div_euclid(1000)
    }
}

fn milliseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Which run of the machine this is. Processes for which the clock since boot is shifted (a time namespace) are on another.
pub(super) fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/time").ok();
    let namespace = namespace.map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Some(format!("{} {namespace}", id.trim()))
}

/// A column of milliseconds as a time.
pub(super) fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}
