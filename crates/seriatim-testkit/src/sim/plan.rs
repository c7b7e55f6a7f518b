//! What a run consists of: all of it follows from the seed, and a failure is shrunk by leaving parts of it out.

use std::fmt;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scene {
    /// Hosts over a feed, with a handler that is called at least once.
    Plain,
    /// Hosts over a feed, with a handler whose effect is in the checkpoint's transaction.
    Transactional,
    /// Hosts over a processor's windows.
    Windows,
    /// Callers that protect effects.
    Once,
    /// Workers of a queue, and a consumer behind a gate.
    Queue,
    /// Hosts over a feed, each life of which brings another number of partitions with it.
    Divided,
}

impl Scene {
    /// All of them.
    pub const ALL: [Scene; 6] =
        [Scene::Plain, Scene::Transactional, Scene::Windows, Scene::Once, Scene::Queue, Scene::Divided];
}

/// What happens to a call to the store or the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallFault {
    /// It fails, and nothing happened.
    Before,
    /// It happens, and its answer is lost.
    After,
    /// It takes so long to get there, and so long to come back, in milliseconds.
    Slow(u64, u64),
    /// It fails, and happens so much later.
    Late(u64),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The process dies at an await, and another one starts so many milliseconds later, perhaps under a new name.
    Crash {
        /// When the next life begins.
        restart: u64,
        /// Whether it has another name.
        renamed: bool,
    },
    /// The process stands still for so many milliseconds.
    Pause(u64),
    /// The process is asked to stop, and another one starts so many milliseconds later.
    Stop(u64),
    /// The clock is set by so many seconds.
    ClockJump(i64),
    /// The process cannot reach anything for so many milliseconds.
    CutOff(u64),
    /// Another process starts under the same name.
    Twin,
    /// A call fails.
    Call(CallFault),
    /// The next call of this name fails.
    CallOf(&'static str, CallFault),
}

/// Something that goes wrong, for one host: after so many milliseconds, at its n-th await (or call) from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The host.
    pub host: usize,
    /// When.
    pub after: u64,
    /// At which await, or call.
    pub nth: u64,
    /// What.
    pub kind: Kind,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where everything is drawn from.
    pub seed: u64,
    /// What is simulated.
    pub scene: Scene,
    /// How many hosts there are.
    pub hosts: usize,
    /// Into how many partitions the feed is sliced.
    pub partitions: u32,
    /// How many objects there are.
    pub objects: u32,
    /// How many changes are made, or signals and events sent.
    pub changes: usize,
    /// For how many milliseconds changes are made and things go wrong.
    pub chaos: u64,
    /// All changes are made within this many milliseconds.
    pub burst: u64,
    /// How many changes a handler gets at most.
    pub batch: usize,
    /// How many calls run at the same time.
    pub concurrency: usize,
    /// How often a change is tried.
    pub attempts: u32,
    /// One change of so many fails until the end; 0 for none.
    pub poison: u64,
    /// So many calls of a handler in 80 fail for once.
    pub flaky: u8,
    /// So many changes in 60 take a handler longer.
    pub slow: u8,
    /// The feed's changes are linked.
    pub chain: bool,
    /// The store can tell a dead process.
    pub tells_dead: bool,
    /// Somebody rewinds partitions while hosts run.
    pub rewinds: bool,
    /// A run that timed out is not repeated before somebody has found out whether it happened.
    pub asks: bool,
    /// So many transactions in 10 change all objects at once.
    pub truncates: u8,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// The run of a seed, in the scene that the seed draws.
    pub fn of(seed: u64) -> Self {
        let scene = Scene::ALL[(seed % Scene::ALL.len() as u64) as usize];
        Plan::in_scene(seed, scene)
    }

    /// The run of a seed in a scene.
    pub fn in_scene(seed: u64, scene: Scene) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5e71_a717);
        let hosts = random.usize(1..=3);
        let chaos = random.u64(15..40) * 1000;
        let intensity = random.usize(0..=14);
        let faults = (0..intensity).flat_map(|_| faults(&mut random, scene, hosts, chaos)).collect();
        let mut plan = Plan {
            seed,
            scene,
            hosts,
            partitions: random.u32(1..=4),
            objects: random.u32(1..=6),
            changes: random.usize(5..40),
            chaos,
            burst: if random.u8(..3) == 0 { random.u64(500..4_000) } else { chaos },
            batch: random.usize(1..=6),
            concurrency: random.usize(1..=3),
            attempts: random.u32(1..=3),
            poison: if random.bool() { random.u64(3..12) } else { 0 },
            flaky: random.u8(..16),
            slow: random.u8(..30),
            chain: random.bool(),
            tells_dead: random.bool(),
            rewinds: false,
            truncates: 0,
            asks: false,
            faults,
        };
        // A chain begins anew when its feed is rewound, so that nobody can say what its links have to be.
        plan.rewinds = random.u8(..3) == 0 && !plan.chain;
        plan.truncates = if random.u8(..3) == 0 { random.u8(1..=3) } else { 0 };
        plan.asks = random.u8(..3) == 0;
        if scene == Scene::Divided {
            // Checkers know where changes are by the first number of partitions.
            (plan.rewinds, plan.truncates) = (false, 0);
        }
        plan
    }

    /// The same run without some of its parts.
    pub fn reduced(mut self, to: &Reduction) -> Self {
        self.hosts = to.hosts.unwrap_or(self.hosts).clamp(1, self.hosts);
        self.changes = to.changes.unwrap_or(self.changes).clamp(1, self.changes);
        self.poison = if to.no_poison { 0 } else { self.poison };
        let hosts = self.hosts;
        let kept = |(number, fault): (usize, Fault)| {
            let kept = to.faults.as_ref().is_none_or(|kept| kept.contains(&number));
            (kept && fault.host < hosts).then_some(fault)
        };
        self.faults = self.faults.into_iter().enumerate().filter_map(kept).collect();
        self
    }
}

/// What is left of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Only so many hosts.
    pub hosts: Option<usize>,
    /// Only so many changes.
    pub changes: Option<usize>,
    /// Only these faults, by their places in the whole plan.
    pub faults: Option<Vec<usize>>,
    /// No change fails for good.
    pub no_poison: bool,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hosts) = self.hosts {
            write!(f, " --hosts {hosts}")?;
        }
        if let Some(changes) = self.changes {
            write!(f, " --changes {changes}")?;
        }
        if let Some(faults) = &self.faults {
            let faults: Vec<String> = faults.iter().map(usize::to_string).collect();
            write!(f, " --faults {}", if faults.is_empty() { "none".to_owned() } else { faults.join(",") })?;
        }
        if self.no_poison {
            write!(f, " --no-poison")?;
        }
        Ok(())
    }
}

/// A fault; one that silences a process often has something of it still under way.
fn faults(random: &mut fastrand::Rng, scene: Scene, hosts: usize, chaos: u64) -> Vec<Fault> {
    let fault = fault(random, scene, hosts, chaos);
    let silences = matches!(fault.kind, Kind::Crash { .. } | Kind::CutOff(_) | Kind::Pause(_));
    let late = CallFault::Late(random.u64(5_000..25_000));
    let kind = match random.bool() {
        true => Kind::Call(late),
        false => Kind::CallOf(named(random, scene), late),
    };
    let before = Fault { after: fault.after.saturating_sub(300), nth: 1, kind, ..fault };
    if silences && random.bool() { vec![before, fault] } else { vec![fault] }
}

fn fault(random: &mut fastrand::Rng, scene: Scene, hosts: usize, chaos: u64) -> Fault {
    let kind = match random.u8(..20) {
        0..3 => Kind::Crash { restart: random.u64(..15_000), renamed: random.bool() },
        3..6 => Kind::Pause(silence(random)),
        6..10 => Kind::Stop(random.u64(..5_000)),
        10 if random.bool() => Kind::Twin,
        10 => Kind::ClockJump(random.i64(-100_000..100_000)),
        11..13 => Kind::CutOff(silence(random)),
        13..16 => Kind::Call(call_fault(random)),
        _ => Kind::CallOf(named(random, scene), call_fault(random)),
    };
    Fault { host: random.usize(..hosts), after: random.u64(..chaos), nth: random.u64(1..40), kind }
}

/// Shorter than a lease lasts, about as long, or longer.
fn silence(random: &mut fastrand::Rng) -> u64 {
    match random.u8(..3) {
        0 => random.u64(..8_000),
        1 => random.u64(8_000..13_000),
        _ => random.u64(10_000..25_000),
    }
}

fn call_fault(random: &mut fastrand::Rng) -> CallFault {
    match random.u8(..6) {
        0 => CallFault::Before,
        1..3 => CallFault::After,
        3..5 => CallFault::Slow(random.u64(..12_000), random.u64(..2_000)),
        _ => CallFault::Late(random.u64(..12_000)),
    }
}

/// A call of the scene's, each as likely as any other, however rarely it is made.
fn named(random: &mut fastrand::Rng, scene: Scene) -> &'static str {
    let calls: &[&str] = match scene {
        Scene::Plain => {
            &["acquire", "renew", "release", "checkpoint", "view", "read parked", "read the source"]
        }
        Scene::Transactional => {
            &["acquire", "renew", "release", "checkpoint", "commit", "view", "read parked"]
        }
        Scene::Divided => &[
            "acquire",
            "renew",
            "release",
            "checkpoint",
            "view",
            "reshape",
            "adopt",
            "find a barrier",
            "read parked",
        ],
        Scene::Windows => &["acquire", "renew", "release", "checkpoint", "view", "fetch", "ask the time"],
        Scene::Once => &["start", "complete", "fail", "show", "extend", "doubt"],
        Scene::Queue => &["take", "next", "release", "park", "beat", "recover", "workers", "leave"],
    };
    calls[random.usize(..calls.len())]
}
