//! Fleets of real processes on each store that a fleet can share: what balance, hand-over, death and silence come to.

mod cut_off;
mod reshaped;
mod sequencer;
mod sharing;
mod site;
mod zombies;
