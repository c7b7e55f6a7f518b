//! Whether this host owns leases, or may own some: it is known to the store and to its queues, and is not about to end.

use seriatim::lease::{HostView, Liveness};

use super::snapshot::{Source, asked};
use super::{Measured, Of};

impl Source {
    /// What is missing; `None` when it is ready.
    pub async fn not_ready(&self) -> Option<String> {
        if *self.ending.borrow() {
            return Some("the host is about to end".to_owned());
        }
        if let Some(store) = &self.store {
            match asked("readiness", "store", store.pulse()).await {
                Some(pulse) if self.is_among(&pulse.hosts) => {}
                Some(_) => return Some("the store does not know this host".to_owned()),
                None => return Some("the store cannot be asked".to_owned()),
            }
        }
        for Measured { of, .. } in &self.feeds {
            let Of::Queue(name, queue) = of else { continue };
            match asked("readiness", &format!("queue {name}"), queue.workers()).await {
                Some(workers) if self.is_among(&workers) => {}
                Some(_) => return Some(format!("queue {name} does not know this host")),
                None => return Some(format!("queue {name} cannot be asked")),
            }
        }
        None
    }

    fn is_among(&self, hosts: &[HostView]) -> bool {
        hosts.iter().any(|host| host.name == self.host && host.liveness != Liveness::Dead)
    }
}
