//! Lanes.
/// B
pub struct Batch;
/// L
pub struct Lanes;
