//! The promises of [`Ledger`], and of [`Once`](seriatim::Once) upon it, each as one test that any ledger can be put to.
//!
//! ```text
//! seriatim_testkit::once_conformance!(SqliteFile::new());
//! ```
//!
//! The expression makes a [`LedgerHarness`] on a ledger that is empty; it is evaluated anew for each test. A capability that a
//! ledger lacks is declared by its harness.

// A promise that is not kept panics: these functions are tests.
#![allow(clippy::unwrap_used)]

pub mod claims;
pub mod crashes;
pub mod housekeeping;
pub mod processes;
pub mod racing;
pub mod results;
#[cfg(feature = "simulation")]
pub mod skewed;
pub mod unknown;

mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::once::Ledger;

/// Opens handles on one and the same ledger.
#[async_trait]
pub trait LedgerHarness: Send + Sync {
    /// Another handle on the same state, such as another process would have.
    async fn open(&self) -> Arc<dyn Ledger>;

    /// Whether the store removes expired records by itself, some time; then sweeping removes none.
    fn sweeps_by_itself(&self) -> bool {
        false
    }
}

/// Makes one test for each promise of the ledger contract. The tests' crate needs `tokio` with its macros.
#[macro_export]
macro_rules! once_conformance {
    ($harness:expr) => {
        $crate::once_promises! { $harness;
            claims: a_signal_never_seen_is_claimed, a_claim_keeps_others_out, of_many_who_start_at_once_one_has_it,
                repeating_a_start_recognises_its_own_claim, a_run_is_taken_over_as_it_was_seen,
                a_run_that_gave_a_sign_of_life_is_not_taken_over, of_many_who_take_over_at_once_one_has_it,
                repeating_a_take_over_recognises_its_own_claim, a_zombie_cannot_complete, a_zombie_cannot_extend,
                a_zombie_cannot_give_the_claim_back, a_completion_is_not_taken_over, a_signal_that_vanished_is_claimed,
                giving_back_leaves_nothing, giving_back_leaves_a_completion_alone, processors_are_independent,
                ids_of_all_kinds_are_told_apart, a_claim_says_when_it_began_and_how_long_it_takes,
                a_ledger_vouches_for_no_more_than_the_truth;
            results: a_completion_is_returned_as_it_was_recorded, repeating_a_completion_changes_nothing,
                a_result_that_was_not_kept_says_why, a_large_result_comes_back_whole, an_empty_result_is_a_result,
                a_unit_result_is_still_a_duplicate, a_result_over_the_limit_completes_all_the_same,
                an_expired_completion_runs_again, a_completion_that_never_expires_stays,
                expiry_is_to_the_second_and_rounded_up;
            racing: of_a_hundred_callers_one_runs_and_all_get_its_result, a_dead_run_is_taken_over_by_one_strictly_after_its_time,
                a_record_forgotten_while_two_wait_is_run_by_one, a_failed_effect_gives_its_claim_back_at_once,
                waiting_has_a_bound, a_run_that_gives_signs_of_life_is_not_taken_over,
                a_run_that_outlives_its_time_is_refused_when_it_completes;
            crashes: a_crash_before_the_effect_loses_nothing, a_crash_after_the_effect_completes_once,
                a_crash_after_the_completion_is_a_duplicate, a_lost_answer_to_a_start_is_no_second_claim,
                a_lost_answer_to_a_completion_is_no_second_run, a_lost_answer_to_a_take_over_is_no_second_claim,
                a_lost_answer_to_giving_back_runs_once_more;
            skewed: a_live_run_is_stolen_by_nobody_whose_clock_is_wrong, a_dead_run_is_taken_over_whosever_clock_is_wrong,
                a_completion_expires_by_nobodys_own_clock;
            unknown: a_doubted_run_is_unknown_until_resolved, a_run_is_doubted_as_it_was_seen,
                an_unknown_run_resolved_as_completed_is_a_duplicate, an_unknown_run_resolved_to_run_again_runs,
                resolving_what_changed_meanwhile_is_refused, repeating_a_resolution_is_harmless,
                a_run_that_completes_late_is_not_unknown_any_more, a_run_that_gives_a_sign_of_life_is_not_unknown_any_more,
                a_timed_out_run_becomes_unknown_where_it_is_asked_for, only_an_unknown_run_is_resolved;
            housekeeping: all_records_are_listed_page_by_page, a_listing_is_of_one_processor_and_one_state,
                forgetting_leaves_nothing, forgetting_another_attempt_is_refused, a_forgotten_run_cannot_complete,
                sweeping_removes_what_expired_in_small_steps, sweeping_leaves_what_counts;
        }
    };
}

/// The list behind [`once_conformance!`], turned into tests.
#[doc(hidden)]
#[macro_export]
macro_rules! once_promises {
    ($harness:expr; $($theme:ident: $($promise:ident),+;)+) => {
        $(mod $theme {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::once_conformance::$theme::$promise(&$harness).await;
                }
            )+
        })+
    };
}
