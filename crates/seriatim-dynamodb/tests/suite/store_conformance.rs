//! The store keeps every promise of the contract: in single transactions, and with everything written down first.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim::Store;
use seriatim_dynamodb::DynamoDbStore;
use seriatim_testkit::conformance::Harness;

use crate::server::Server;

/// A table of its own, and how many writes go into one transaction.
struct OnDynamoDb(Server, usize);

#[async_trait]
impl Harness for OnDynamoDb {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(DynamoDbStore::connect(&self.0.address()).await.unwrap().in_steps_of(self.1))
    }

    fn knows_the_dead(&self) -> bool {
        false
    }
}

mod at_once {
    use super::*;
    seriatim_testkit::conformance!(OnDynamoDb(Server::share(), usize::MAX));
}

/// The promises about what is parked, which is what takes many writes.
mod written_down {
    use super::*;
    seriatim_testkit::promises! { OnDynamoDb(Server::share(), 0);
        fencing: a_fenced_checkpoint_parks_nothing, a_forgotten_feed_cannot_be_checkpointed;
        parked: parked_changes_come_back_whole_and_in_order, parking_twice_keeps_one, parked_changes_survive_their_owner,
            parked_objects_are_listed_oldest_first_by_partition, one_and_one_point_zero_are_one_object;
        retried: changes_that_are_done_are_parked_no_more, an_object_of_which_nothing_is_left_is_gone,
            a_fenced_checkpoint_takes_nothing_out, a_change_parked_with_the_last_ones_removal_is_kept,
            marking_has_an_object_tried_again, marking_lets_the_owners_know;
        discarded: the_first_change_is_dropped_and_the_rest_goes_on, the_whole_tail_is_dropped,
            repeating_a_discard_drops_nothing_more, what_its_owner_may_be_trying_is_not_discarded;
        rewind: repeating_a_rewind_is_harmless, rewinding_keeps_or_drops_what_is_parked_in_its_partition;
    }
}
