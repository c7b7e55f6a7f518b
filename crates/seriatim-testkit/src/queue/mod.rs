//! The promises of [`Queue`], each as one test that any queue can be put to.
//!
//! ```text
//! seriatim_testkit::queue_conformance!(OnRedis::new().await);
//! ```
//!
//! The expression makes a [`QueueHarness`] on a queue that is empty; it is evaluated anew for each test.

// A promise that is not kept panics: these functions are tests.
#![allow(clippy::unwrap_used)]

pub mod chains;
pub mod holds;
pub mod looking;
pub mod parking;
pub mod processes;
pub mod pushing;
pub mod removing;
pub mod workers;
pub mod working;

mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::queue::Queue;

pub use stage::QueueStage;

/// Opens handles on one and the same queue.
#[async_trait]
pub trait QueueHarness: Send + Sync {
    /// Another handle on the same queue, such as another process would have.
    async fn open(&self) -> Arc<dyn Queue>;

    /// A handle on the same queue that lets no object have more than so many events waiting.
    async fn with_limit(&self, limit: u64) -> Arc<dyn Queue>;
}

/// Makes one test for each promise of the queue contract. The tests' crate needs `tokio` with its macros.
#[macro_export]
macro_rules! queue_conformance {
    ($harness:expr) => {
        $crate::queue_promises! { $harness;
            pushing: events_leave_in_the_order_of_their_push, an_empty_push_does_nothing, bytes_come_back_as_they_are,
                a_full_object_refuses_and_says_so, a_name_that_is_no_good_is_refused;
            chains: each_event_names_the_one_before_it, ids_rise_over_all_objects, the_chain_goes_on_after_a_release,
                what_was_stamped_is_the_same_for_who_comes_next, a_partly_sent_batch_goes_on_where_it_stopped;
            holds: an_object_has_one_holder, of_many_who_take_one_object_one_gets_it, the_last_event_releases_in_the_same_step,
                events_pushed_while_held_come_to_the_holder, a_release_queues_what_is_left, a_zombie_cannot_record,
                a_zombie_cannot_release_or_park, ones_own_old_hold_is_refused, repeating_next_is_harmless,
                repeating_a_release_is_harmless, a_forgotten_hold_is_found_by_the_next_beat;
            workers: a_name_belongs_to_one_worker, of_many_who_join_under_one_name_one_comes_in,
                a_name_is_taken_over_by_naming_its_session, a_holder_that_has_beaten_since_keeps_its_name, a_worker_publishes_its_expiry, beats_move, a_silent_worker_is_recovered,
                a_sign_of_life_prevents_recovery, what_was_recovered_comes_first, leaving_gives_back_what_was_held,
                leaving_after_being_replaced_leaves_the_successor_alone, a_replaced_session_takes_nothing;
            parking: a_parked_object_is_left_alone_and_keeps_its_events, a_parked_object_is_retried_with_the_same_ids,
                parking_records_what_was_sent, retrying_what_is_not_parked_is_refused,
                the_failed_event_is_discarded_and_the_rest_goes_on, all_of_a_parked_object_is_discarded,
                only_what_was_seen_is_discarded, what_waits_is_counted;
            looking: an_object_can_be_looked_at, objects_at_rest_are_not_listed, a_push_wakes_who_waits,
                invariants_hold_along_the_way;
            working: pushing_between_the_last_pop_and_the_release_strands_nothing,
                many_workers_send_every_chain_whole;
            removing: a_queue_without_events_is_removed, a_queue_with_events_stays_as_it_is,
                events_are_dropped_only_when_they_may_be;
        }
    };
}

/// The list behind [`queue_conformance!`], turned into tests.
#[doc(hidden)]
#[macro_export]
macro_rules! queue_promises {
    ($harness:expr; $($theme:ident: $($promise:ident),+;)+) => {
        $(mod $theme {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::queue::$theme::$promise(&$harness).await;
                }
            )+
        })+
    };
}
