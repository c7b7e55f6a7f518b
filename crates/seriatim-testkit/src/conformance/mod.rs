//! The promises of [`Store`], each as one test that any store can be put to.
//!
//! ```text
//! seriatim_testkit::conformance!(SqliteFile::new());
//! ```
//!
//! The expression makes a [`Harness`] on a store that is empty; it is evaluated anew for each test. A capability that
//! a store lacks is declared by its harness, and the suite then checks that the store does not pretend to have it.

// A promise that is not kept panics: these functions are tests.
#![allow(clippy::unwrap_used)]

pub mod actions;
pub mod epochs;
pub mod feeds;
pub mod fencing;
pub mod hand_over;
pub mod hosts;
pub mod parked;
pub mod paused;
pub mod retried;
pub mod chains;
pub mod discarded;
pub mod done;
pub mod rewind;
pub mod reshaped;

mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::Store;

pub use stage::Stage;

/// Opens handles on one and the same store.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Another handle on the same state, such as another process would have.
    async fn open(&self) -> Arc<dyn Store>;

    /// Whether the store knows that a host is dead once the handle through which it joined is dropped.
    fn knows_the_dead(&self) -> bool;
}

/// Makes one test for each promise of the store contract. The tests' crate needs `tokio` with its macros.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::promises! { $harness;
            hosts: two_handles_see_one_identity, a_name_belongs_to_one_host, of_many_who_join_under_one_name_one_comes_in,
                a_name_is_taken_over_by_naming_its_session, naming_another_session_takes_no_name_over,
                a_holder_that_has_beaten_since_keeps_its_name,
                a_replaced_session_cannot_renew, a_replaced_session_cannot_checkpoint,
                a_replaced_session_acquires_nothing,
                a_host_that_left_is_gone_and_its_leases_are_free, leaving_twice_is_harmless,
                leaving_after_being_replaced_leaves_the_successor_alone, beats_move_with_every_renewal,
                a_host_publishes_its_expiry_and_its_progress, hosts_are_listed_by_name_with_their_feeds, a_renewal_tells_what_keeps_a_host_from_going_on, a_dead_host_is_known_where_the_store_can_tell;
            feeds: a_new_feed_starts_where_it_is_told, ensuring_again_keeps_positions,
                another_number_of_partitions_is_refused, many_who_ensure_at_once_make_one_feed,
                feeds_are_listed_by_name, a_view_has_the_leases_asked_for_in_order,
                a_forgotten_feed_leaves_nothing, forgetting_one_feed_leaves_the_others,
                a_forgotten_feed_may_come_back_with_other_partitions;
            epochs: acquiring_raises_the_epoch, of_many_who_acquire_at_once_one_wins, a_lease_seen_too_early_is_not_acquired,
                repeating_an_acquire_returns_the_same_lease, acquiring_ones_own_lease_again_raises_the_epoch,
                releasing_keeps_position_and_epoch, releasing_twice_is_harmless, a_lease_that_is_not_there_is_not_acquired,
                a_renewal_writes_to_no_lease, a_lease_whose_owner_has_beaten_since_it_was_seen_is_not_acquired,
                many_leases_are_acquired_in_one_call, many_leases_are_released_in_one_call,
                the_mark_moves_with_all_that_owners_have_to_know, the_mark_stands_still_while_owners_work;
            fencing: a_zombie_cannot_checkpoint, a_zombie_cannot_release, an_owners_own_old_epoch_cannot_write,
                a_lease_given_up_cannot_checkpoint, a_fenced_checkpoint_parks_nothing, a_checkpoint_is_seen_by_everybody,
                repeating_a_checkpoint_is_harmless, renewing_and_checkpointing_at_once_never_fight,
                a_forgotten_feed_cannot_be_checkpointed;
            hand_over: a_request_reaches_the_owner_with_its_look, the_first_who_asks_is_heard,
                asking_for_a_lease_that_changed_hands_is_refused, a_lease_is_kept_for_who_asked,
                acquiring_answers_the_request;
            parked: parked_changes_come_back_whole_and_in_order, parking_twice_keeps_one, an_object_keeps_its_time_and_shows_its_last_failure,
                parked_objects_are_listed_oldest_first_by_partition, no_more_changes_come_than_asked_for,
                a_change_that_waits_for_nothing_is_not_lost, keys_of_another_type_are_other_objects,
                parked_changes_survive_their_owner, one_and_one_point_zero_are_one_object, a_parked_object_is_found_by_its_key,
                parked_objects_come_page_by_page, parked_objects_are_counted_up_to_a_bound;
            retried: changes_that_are_done_are_parked_no_more, an_object_of_which_nothing_is_left_is_gone,
                taking_out_twice_is_harmless, a_fenced_checkpoint_takes_nothing_out, what_is_left_counts_its_attempts_anew,
                a_change_parked_with_the_last_ones_removal_is_kept, an_object_that_steps_aside_says_so,
                marking_has_an_object_tried_again, marking_all_leaves_other_feeds_alone, marking_what_is_not_parked_marks_nothing,
                marking_lets_the_owners_know, an_object_that_is_resumed_is_tried_again_as_it_was,
                a_fenced_checkpoint_resumes_nothing, resuming_what_is_not_parked_is_harmless,
                an_object_tells_when_it_is_tried_again;
            discarded: the_first_change_is_dropped_and_the_rest_goes_on, the_whole_tail_is_dropped, a_discard_is_remembered_with_its_reason,
                repeating_a_discard_drops_nothing_more, what_begins_with_another_change_is_not_discarded,
                what_its_owner_may_be_trying_is_not_discarded, what_nobody_owns_may_be_discarded_while_it_is_retrying,
                discarding_lets_the_owner_know, of_many_discards_the_latest_are_remembered,
                a_forgotten_feed_leaves_no_discards;
            done: what_is_handled_beyond_the_position_is_told_to_the_next_owner, a_zombie_cannot_tell_what_is_handled,
                a_rewind_forgets_what_is_handled_beyond, a_forgotten_feed_leaves_nothing_handled;
            chains: a_checkpoint_keeps_the_last_change_of_each_object, a_later_checkpoint_moves_the_chain,
                a_row_that_existed_takes_nobodys_place,
                a_zombie_cannot_extend_a_chain, a_forgotten_feed_leaves_no_chain;
            actions: what_people_did_is_kept_for_everybody, old_actions_make_room_for_new_ones;
            paused: a_pause_is_kept_until_it_is_ended, a_forgotten_feed_is_not_paused, a_pause_and_its_end_move_the_mark;
            reshaped: a_lease_that_gets_another_part_stays_its_owners_and_is_taken_by_nobody_who_saw_it_before,
                new_leases_begin_where_they_are_told, what_was_reshaped_since_it_was_seen_is_not_reshaped,
                what_must_be_free_and_has_an_owner_is_not_reshaped, a_lease_that_was_removed_is_gone,
                ensuring_a_feed_that_was_reshaped_adds_nothing, a_forgotten_feed_leaves_no_parts,
                a_host_that_leaves_frees_its_new_leases, the_mark_moves_when_a_feed_is_reshaped,
                parked_objects_are_adopted_as_they_are, a_zombie_adopts_nothing;
            rewind: rewinding_fences_the_owner, rewinding_what_changed_meanwhile_is_refused, rewinding_what_was_written_since_it_was_seen_is_refused, repeating_a_rewind_is_harmless,
                rewinding_a_free_lease_raises_its_epoch, rewinding_keeps_or_drops_what_is_parked_in_its_partition;
        }
    };
}

/// The list behind [`conformance!`], turned into tests.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($harness:expr; $($theme:ident: $($promise:ident),+;)+) => {
        $(mod $theme {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    $crate::conformance::$theme::$promise(&$harness).await;
                }
            )+
        })+
    };
}
