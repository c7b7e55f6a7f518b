//! Signs of life, and taking over from workers that give none.

use std::sync::Arc;
use std::time::Duration;

use super::life::{Life, Phase};
use crate::clock;
use crate::lease::{HostView, View, Watch};
use crate::store::StoreError;

/// Beats and looks around until the task is ended.
pub(super) async fn keep(life: Arc<Life>) {
    let leases = life.settings.leases;
    let mut watch = Watch::default();
    let (mut next_beat, mut next_look) = (life.first_beat, clock::now());
    while life.phase() != Phase::Lost {
        let now = clock::now();
        if now >= next_beat {
            // From when it is sent, not from when it is answered: that is how others count.
            next_beat = now + leases.renew;
            match life.beat().await {
                Ok(()) => {}
                Err(error @ StoreError::NeedsAttention { .. }) => return life.stop(error.to_string()),
                Err(error) => {
                    tracing::warn!(worker = %life.session.worker, "no sign of life could be given: {error}");
                    next_beat = now + leases.renew / 3;
                }
            }
        }
        if now >= next_look {
            next_look = now + leases.acquire;
            if let Err(error) = look_around(&life, &mut watch).await {
                tracing::debug!(worker = %life.session.worker, "could not look for silent workers: {error}");
            }
        }
        tokio::time::sleep_until(next_beat.min(next_look)).await;
    }
}

/// Has the objects of silent workers queued again.
async fn look_around(life: &Life, watch: &mut Watch) -> Result<(), StoreError> {
    let asked = clock::now();
    let own = life.settings.leases.expire;
    let published = |worker: HostView| HostView { expire: published_or(worker.expire, own), ..worker };
    let hosts = life.queue.workers().await?.into_iter().map(published).collect();
    let view = View { hosts, ..View::default() };
    for judged in watch.judge(&view, asked, clock::now(), own).hosts {
        let seen = judged.host;
        if !judged.live && seen.session != life.session.id && life.queue.recover(&seen).await? {
            tracing::warn!(worker = %seen.name, "is silent: what it held is queued again");
        }
    }
    Ok(())
}

/// The expiry that a worker is judged by: its own. One of an older version publishes none, and is judged by that of the judge.
pub(super) fn published_or(published: Duration, own: Duration) -> Duration {
    if published.is_zero() { own } else { published }
}
