//! Processes that start in the same moment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seriatim::clock;

use super::place::{EXISTING, Place, Plan};

/// How long anything may take here, also where twenty processes share a busy processor.
const BOUND: Duration = Duration::from_secs(180);

/// How many events are pushed while the fleet starts.
pub const PUSHED: u64 = 4;

/// A process, with its output in files.
struct Member {
    name: String,
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

/// How often each change was handed out, by capture and row.
pub type Told = BTreeMap<(String, u64), usize>;

/// The hosts of a fleet, and others who use the same source and store.
pub struct Crowd {
    plan: Plan,
    hosts: Vec<Member>,
    victim: Option<Member>,
    others: Vec<Member>,
}

impl Member {
    fn start(place: &Place, name: &str, mut command: Command) -> Self {
        let (out, log) = (place.path(&format!("{name}.out")), place.path(&format!("{name}.log")));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
        Member { name: name.to_owned(), child: command.spawn().unwrap(), out, log }
    }

    fn host(place: &Place, name: &str) -> Self {
        Member::start(place, name, place.program(&format!("run --host {name}")))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Fails when it has ended, or one of its feeds has.
    fn must_run(&mut self, plan: Plan) {
        let (ended, log) = (self.child.try_wait().unwrap(), self.log());
        assert!(ended.is_none() && !log.contains("ERROR"), "{plan:?}: {} ended, {ended:?}: {log}", self.name);
    }

    /// Fails unless it ends well.
    fn must_end(&mut self, plan: Plan) {
        let began = clock::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < BOUND, "{plan:?}: {} does not end: {}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{plan:?}: {} ended, {status}: {}", self.name, self.log());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Crowd {
    /// Starts hosts, and beside them those who push events, watch tables, and protect a command.
    pub fn start(plan: Plan, place: &Place) -> Self {
        let mut crowd = Crowd { plan, hosts: Vec::new(), victim: None, others: Vec::new() };
        for number in 1..=plan.hosts.max(4) {
            if number <= plan.hosts {
                crowd.hosts.push(Member::host(place, &format!("host-{number}")));
            }
            if number == 1 && plan.killed_after.is_some() {
                crowd.victim = Some(Member::host(place, "victim"));
            }
            if let Some(id) = Some(number as u64).filter(|id| *id <= PUSHED) {
                crowd.others.push(Member::start(place, &format!("push-{id}"), place.push(id)));
            }
            if let 2 | 3 = number {
                crowd.others.push(Member::start(place, &format!("watch-{number}"), place.program("watch")));
                let mut once = place.program("once run --processor mailer --id one --");
                once.args(["sh", "-c", "echo once >> sent; echo sent"]);
                crowd.others.push(Member::start(place, &format!("once-{number}"), once));
            }
        }
        crowd
    }

    /// Kills the victim. When it is to be killed is part of the plan, whatever it is at then.
    pub fn kill(&mut self) {
        if let (Some(victim), Some(after)) = (&mut self.victim, self.plan.killed_after) {
            std::thread::sleep(after);
            victim.child.kill().unwrap();
        }
    }

    /// Waits for all but the hosts.
    pub fn others_end(&mut self) {
        self.others.iter_mut().for_each(|member| member.must_end(self.plan));
    }

    /// Waits until as many changes of each capture are handled; the hosts must not stop.
    pub fn handles(&mut self, rows: u64, events: u64) {
        let expected = usize::try_from(3 * rows + events).unwrap();
        let began = clock::now();
        while self.told().len() < expected {
            self.hosts.iter_mut().for_each(|host| host.must_run(self.plan));
            let logs = || self.hosts.iter().map(Member::log).collect::<String>();
            assert!(
                began.elapsed() < BOUND,
                "{:?}: not all is handled: {:?} {}",
                self.plan,
                self.told(),
                logs()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Tells all hosts to stop, and waits for their end.
    pub fn stop(&mut self) {
        for host in &self.hosts {
            kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
        }
        self.hosts.iter_mut().for_each(|host| host.must_end(self.plan));
    }

    /// What was handed out. A line that was cut off when its host was killed is none.
    pub fn told(&self) -> Told {
        let mut told = Told::new();
        for host in self.hosts.iter().chain(&self.victim) {
            let lines = fs::read_to_string(&host.out).unwrap();
            for change in
                lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            {
                let capture = change["feed"].as_str().unwrap().split_once('-').unwrap().1.to_owned();
                *told.entry((capture, change["after"]["id"].as_u64().unwrap())).or_default() += 1;
            }
        }
        told
    }
}

/// A crowd starts; every row and every event that exists, and one more of each, is handled.
pub fn starts(plan: Plan) {
    let place = Place::new(plan);
    let mut crowd = Crowd::start(plan, &place);
    crowd.kill();
    crowd.others_end();
    assert_eq!(fs::read_to_string(place.path("sent")).unwrap(), "once\n", "{plan:?}");
    crowd.handles(EXISTING, PUSHED);
    place.insert(EXISTING + 1);
    assert!(place.push(EXISTING + 1).status().unwrap().success());
    crowd.handles(EXISTING + 1, PUSHED + 1);
    crowd.stop();
    let told = crowd.told();
    assert_eq!(told.len() as u64, 3 * (EXISTING + 1) + PUSHED + 1, "{plan:?}: {told:?}");
    let twice: Vec<_> = told.iter().filter(|(_, times)| **times > 1).collect();
    // After a crash, changes may come again.
    assert!(plan.killed_after.is_some() || twice.is_empty(), "{plan:?}: came twice: {twice:?}");
}
