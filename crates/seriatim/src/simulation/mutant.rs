//! Deliberate bugs: the proof that the checkers see.

/// A deliberate bug. Those marked *model* are built into the models of the testkit, the others into the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Mutant {
    /// Model: a checkpoint under an old epoch is taken.
    CheckpointWithoutEpoch,
    /// Model: a lease is given up under an old epoch.
    ReleaseWithoutEpoch,
    /// Model: a lease is taken although its owner's session has beaten since it was looked at.
    AcquireWithoutBeat,
    /// Model: a lease is taken however it has changed since it was looked at.
    AcquireWithoutCompare,
    /// Model: what is parked is stored in a step of its own, after the checkpoint that passes it.
    ParkInASecondStep,
    /// Model: what is kept of a parked object comes back in no order.
    ParkedOutOfOrder,
    /// Model: two sequencers number committed changes at the same time.
    SequencerWithoutLock,
    /// Model: changes are read by numbers that were drawn before the commit.
    PositionsBeforeCommit,
    /// Model: a window does not wait for transactions that may still write into it.
    HorizonIgnored,
    /// Model: a signal's run is completed by whoever says so.
    CompleteWithoutAttempt,
    /// Model: a run is taken over however it has changed since it was looked at.
    TakeOverWithoutCompare,
    /// Model: how long a run has stood still is judged by the host's time of day.
    TimeOutByHostClock,
    /// Model: what is recorded of a queue's object does not name its epoch.
    RecordWithoutEpoch,
    /// Model: an object without events is looked at, and given up in a second step.
    ReleaseInTwoSteps,
    /// Model: a silent worker is taken out although it has given a sign of life since.
    RecoverWithoutBeat,
    /// Model: an event that came too early is forgotten by the gate's state.
    EarlyEventForgotten,
    /// Model: a run whose fate is unknown is repeated, although nobody has said that it may be.
    UnknownRunsAgain,
    /// A change of all objects waits for none of them.
    EverythingAtOnce,
    /// The position moves when a batch is taken, not when it is done.
    TrackerBeforeProcess,
    /// Later changes of a parked object are handled.
    TailNotHeld,
    /// A lease is given up as soon as somebody asks for it, while its batch still runs.
    HandOverWithoutDraining,
    /// An owner that cannot renew goes on as if it could.
    TrustForever,
    /// How long an owner has been silent is judged by the host's time of day.
    ExpiryByHostClock,
    /// A parked object rejoins the live stream while changes of it are on their way into the store.
    RejoinTooEarly,
    /// A batch that failed in parts counts as done.
    FailedBatchCounts,
    /// A change that waits to be parked is told to be handled beyond the checkpoint.
    AsideCountsAsHandled,
    /// A queue's worker that cannot give signs of life goes on sending.
    SendWithoutTrust,
    /// A partition begins before those that it comes from have ended.
    ChildrenDoNotWait,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 28] = [
        Mutant::CheckpointWithoutEpoch,
        Mutant::ReleaseWithoutEpoch,
        Mutant::AcquireWithoutBeat,
        Mutant::AcquireWithoutCompare,
        Mutant::ParkInASecondStep,
        Mutant::ParkedOutOfOrder,
        Mutant::SequencerWithoutLock,
        Mutant::PositionsBeforeCommit,
        Mutant::HorizonIgnored,
        Mutant::CompleteWithoutAttempt,
        Mutant::TakeOverWithoutCompare,
        Mutant::TimeOutByHostClock,
        Mutant::RecordWithoutEpoch,
        Mutant::ReleaseInTwoSteps,
        Mutant::RecoverWithoutBeat,
        Mutant::EarlyEventForgotten,
        Mutant::UnknownRunsAgain,
        Mutant::EverythingAtOnce,
        Mutant::TrackerBeforeProcess,
        Mutant::TailNotHeld,
        Mutant::HandOverWithoutDraining,
        Mutant::TrustForever,
        Mutant::ExpiryByHostClock,
        Mutant::RejoinTooEarly,
        Mutant::FailedBatchCounts,
        Mutant::AsideCountsAsHandled,
        Mutant::SendWithoutTrust,
        Mutant::ChildrenDoNotWait,
    ];
}
