//! The step between a host and its command: it asks the system to be killed with the host, and then becomes the command.
//!
//! ```text
//!   host ──starts──▶ launch HOST COMMAND… ──becomes──▶ the command, killed by the system when the host ends
//! ```
//!
//! The program that runs the host is this step, too, when it is called so: see [`CommandSettings::launcher`](super::CommandSettings).
//! Only Linux can do it. A command with other rights than the host's (set-user-ID, capabilities) loses the bond when it begins; then,
//! as on other systems, a guard ends it within milliseconds.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the system kill this process when `host` ends, and becomes the command: returns only if that failed.
///
/// To be called by a process that the host has started, before it does anything else.
pub fn launch(host: u32, command: &[OsString]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "it names no program");
    };
    if let Err(error) = die_with(host) {
        return error;
    }
    Command::new(program).args(arguments).exec()
}

#[cfg(target_os = "linux")]
fn die_with(host: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it could be asked for.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned());
    if parent == Some(host) { Ok(()) } else { Err(io::Error::other("its host has ended")) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: u32) -> io::Result<()> {
    Ok(())
}
