//! Listing, forgetting, sweeping.

use std::collections::BTreeSet;
use std::time::Duration;

use seriatim::once::{Claim, Held, Ledger, Listing, ProcessorId, Record, Signal, SignalId, State};

use super::LedgerHarness;
use super::stage::{Stage, claim, completion, run_of, signal};

async fn all(ledger: &dyn Ledger, listing: &Listing) -> Vec<Record> {
    let (mut records, mut from) = (Vec::new(), None);
    loop {
        let page = ledger.list(listing, from.as_ref()).await.unwrap();
        records.extend(page.records);
        match page.next {
            Some(next) => from = Some(next),
            None => return records,
        }
    }
}

/// Each once, without results, which may be large.
pub async fn all_records_are_listed_page_by_page(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let ids: BTreeSet<String> = (0..23).map(|number| format!("signal {number}")).collect();
    for id in &ids {
        stage.completes(id, "r", None).await;
    }
    let listing = Listing { page: 5, ..Listing::default() };
    let listed = all(&*stage.other, &listing).await;
    assert_eq!(listed.len(), ids.len());
    assert!(listed.iter().all(|record| record.result.is_none() && record.state == State::Completed));
    let listed: BTreeSet<String> = listed.iter().map(|record| record.signal.id.to_string()).collect();
    assert_eq!(listed, ids);
    assert_eq!(all(&*stage.other, &Listing::default()).await.len(), ids.len());
}

/// Where that is asked for.
pub async fn a_listing_is_of_one_processor_and_one_state(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("done", "r", None).await;
    stage.completes("old", "r", Some(Duration::from_millis(1))).await;
    stage.claims("at it").await;
    let doubted = stage.claims("who knows").await;
    assert!(stage.ledger.doubt(&signal("who knows"), &run_of(&doubted)).await.unwrap());
    let biller = ProcessorId::new("biller").unwrap();
    let other = Signal { processor: biller.clone(), id: SignalId::new("other").unwrap() };
    stage.ledger.start(&Claim { signal: other, ..claim("other") }, None).await.unwrap();
    stage.expires("old").await;

    let ids = async |processor: Option<&ProcessorId>, state: Option<State>| {
        let listing = Listing { processor: processor.cloned(), state, page: 2 };
        let records = all(&*stage.other, &listing).await;
        let mut ids: Vec<String> = records.iter().map(|record| record.signal.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(None, None).await, ["at it", "done", "old", "other", "who knows"]);
    assert_eq!(ids(Some(&biller), None).await, ["other"]);
    assert_eq!(ids(None, Some(State::Running)).await, ["at it", "other"]);
    assert_eq!(ids(Some(&biller), Some(State::Completed)).await, [""; 0]);
    assert_eq!(ids(None, Some(State::Completed)).await, ["done"]);
    assert_eq!(ids(None, Some(State::Expired)).await, ["old"]);
    assert_eq!(ids(None, Some(State::Unknown)).await, ["who knows"]);
}

/// The signal is as if it had never been.
pub async fn forgetting_leaves_nothing(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let done = stage.completes("1", "r", None).await;
    for _ in 0..2 {
        assert!(stage.other.forget(&signal("1"), &run_of(&done)).await.unwrap());
        assert!(stage.is_gone("1").await);
    }
    stage.claims("1").await;
}

/// It is not what was looked at.
pub async fn forgetting_another_attempt_is_refused(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let first = stage.claims("1").await;
    let second = stage.takes_over("1").await;
    assert!(!stage.ledger.forget(&signal("1"), &run_of(&first)).await.unwrap());
    assert_eq!(stage.sees("1").await.run, run_of(&second));
}

/// Somebody wanted it gone.
pub async fn a_forgotten_run_cannot_complete(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let forgotten = stage.claims("1").await;
    assert!(stage.other.forget(&signal("1"), &run_of(&forgotten)).await.unwrap());
    assert_eq!(stage.ledger.complete(&forgotten, &completion("r", None)).await.unwrap(), Held::Lost);
    assert!(stage.is_gone("1").await);
}

/// So that nobody waits for long.
pub async fn sweeping_removes_what_expired_in_small_steps(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    let ids = ["1", "2", "3", "4", "5"];
    for id in ids {
        stage.completes(id, "r", Some(Duration::from_millis(1))).await;
    }
    for id in ids {
        stage.expires(id).await;
    }
    if harness.sweeps_by_itself() {
        assert_eq!(stage.ledger.sweep(2).await.unwrap(), 0);
        return;
    }
    for removed in [2, 2, 1, 0] {
        assert_eq!(stage.ledger.sweep(2).await.unwrap(), removed);
    }
    assert!(all(&*stage.other, &Listing::default()).await.is_empty());
}

/// Whatever has not expired, runs, or waits for somebody.
pub async fn sweeping_leaves_what_counts(harness: &impl LedgerHarness) {
    let stage = Stage::set(harness).await;
    stage.completes("1", "r", None).await;
    stage.completes("2", "r", Some(Duration::from_secs(3600))).await;
    stage.claims("3").await;
    let doubted = stage.claims("4").await;
    assert!(stage.ledger.doubt(&signal("4"), &run_of(&doubted)).await.unwrap());
    assert_eq!(stage.ledger.sweep(100).await.unwrap(), 0);
    assert_eq!(all(&*stage.other, &Listing::default()).await.len(), 4);
}
