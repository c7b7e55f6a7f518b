//! A history for people to read.

use super::history::{EVERYTHING, Entry, What};
use super::scheduler::Machine;

/// The history up to what went wrong, a sentence for each thing that matters.
pub fn timeline(entries: &[Entry], upto: usize) -> String {
    let mut text = String::new();
    for entry in &entries[..upto.min(entries.len())] {
        let Some(sentence) = sentence(&entry.what) else { continue };
        let (seconds, millis) = (entry.at / 1000, entry.at % 1000);
        let line =
            format!("{seconds:>5}.{millis:03}s  step {:<6} {:<6} {sentence}", entry.step, who(entry.machine));
        text += &line;
        text.push('\n');
    }
    text
}

fn who(machine: Machine) -> String {
    match machine.0 {
        0 => "-".to_owned(),
        number => format!("m{number}"),
    }
}

fn sentence(what: &What) -> Option<String> {
    Some(match what {
        What::Checkpointed { partition, epoch, position, unparked, parked, .. } => {
            let mut said = format!("checkpoint of partition {partition} at {position}, epoch {epoch}");
            if !parked.is_empty() {
                said += &format!(", parks {parked:?}");
            }
            if !unparked.is_empty() {
                said += &format!(", takes {unparked:?} out");
            }
            said
        }
        What::Started { name } => format!("a process starts as {name}"),
        What::Stopping => "is asked to stop".to_owned(),
        What::Stopped { how } => format!("has ended: {how}"),
        What::Crashed { at } => format!("CRASHES (last did: {at})"),
        What::Paused => "STANDS STILL".to_owned(),
        What::Resumed => "goes on".to_owned(),
        What::CutOff => "CAN REACH NOTHING".to_owned(),
        What::Connected => "can reach everything again".to_owned(),
        What::ClockJumped { seconds } => format!("its clock JUMPS by {seconds} s"),
        What::CallFault { call, fault } => format!("call {call:?}: {}", fault.to_uppercase()),
        What::Hurt { what } => what.replace('_', " ").to_uppercase(),
        What::Calm => "-- no more faults --".to_owned(),
        What::Cured => "-- no handler fails any more --".to_owned(),
        What::Over => "-- over --".to_owned(),
        What::Committed { partition, key: EVERYTHING, change, .. } => {
            format!("change {change} of everything commits (partition {partition})")
        }
        What::Committed { partition, key, change, .. } => {
            format!("change {change} of object {key} commits (partition {partition})")
        }
        What::Sequenced { change, position, .. } => format!("change {change} is at place {position}"),
        What::Joined { session } => format!("joins, session {}", &session[..8.min(session.len())]),
        What::Acquired { partition, epoch, from, .. } => {
            let from = if from.is_some() { ", from its owner" } else { "" };
            format!("takes partition {partition}{from}, epoch {epoch}")
        }
        What::Renewed { .. } => "gives a sign of life".to_owned(),
        What::Released { partition, epoch, .. } => format!("gives partition {partition} up, epoch {epoch}"),
        What::AskedFor { partition, .. } => format!("asks for partition {partition}"),
        What::Fenced { partition, epoch, .. } => format!("is refused: partition {partition}, epoch {epoch}"),
        What::Rewound { partition, epoch, position, .. } => {
            format!("somebody REWINDS partition {partition} to {position}, epoch {epoch}")
        }
        What::Discarded { changes, .. } => format!("somebody discards {changes:?}"),
        What::Began { call, epoch, changes, .. } => {
            format!("call {call} begins with {changes:?}, epoch {epoch}")
        }
        What::Handled { call, change } => format!("call {call} has handled {change}"),
        What::Failed { call, change } => format!("call {call} fails at {change}"),
        What::Ended { call } => format!("call {call} ends"),
        What::Effect { changes, epoch, .. } => format!("effect of {changes:?} is committed, epoch {epoch}"),
        other => format!("{other:?}"),
    })
}
