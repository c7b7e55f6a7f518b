//! What a host started dies with it, also when the host itself was killed and could say nothing.
//!
//! A child that reads ahead, or does not look at its input, would go on with what it has read, while the next owner handles newer
//! changes of the same objects. So a small shell waits for the end of a pipe that only this process holds, and then kills the
//! child's process group. The system closes the pipe however this process ends.
//!
//! Where the system itself kills the child ([`launch`](super::launch())), the guard is for what the child has started: all that
//! is still in its process group.

use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::{Child, ChildStdin, Command};

const WAIT_AND_KILL: &str = r#"while read -r _; do :; done; kill -s KILL -- "-$1""#;

/// Kills a process group when this process ends. Let go, it does nothing any more.
pub struct Guard {
    // Killed before its pipe is closed: nothing happens then.
    _shell: Child,
    _pipe: Option<ChildStdin>,
}

impl Guard {
    /// Watches over this group. `None`, with a warning, where there is no shell.
    pub fn over(group: Pid) -> Option<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", WAIT_AND_KILL, "seriatim-guard", &group.as_raw_pid().to_string()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to this process's group is none of its business.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        match shell {
            Ok(mut shell) => Some(Guard { _pipe: shell.stdin.take(), _shell: shell }),
            Err(error) => {
                tracing::warn!(%error, "there is no /bin/sh: a command that ignores the end of its input outlives a host that is killed");
                None
            }
        }
    }
}
