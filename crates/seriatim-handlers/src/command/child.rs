//! One child process with everything it starts: begins, is listened to, ends.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use seriatim::FeedName;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin};
use tokio::task::JoinHandle;

use super::guard::Guard;
use super::stdout_reader::StdoutReader;
use super::{CommandSettings, program, starter};

/// A longer line of its standard error is logged in parts.
const LONGEST_LINE: usize = 8 * 1024;

/// How often a child that is expected to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long the system may take to bury a killed child, and its last words to arrive.
const BURIAL: Duration = Duration::from_secs(2);

/// A running child.
pub struct Child {
    process: tokio::process::Child,
    group: Group,
    pub stdin: Option<ChildStdin>,
    /// What it says on its standard output.
    pub stdout: StdoutReader,
    listening: JoinHandle<()>,
    last_words: Arc<Mutex<String>>,
}

/// How a child ended.
pub struct Death {
    /// Its exit status if it ended by itself, `None` if it had to be killed.
    pub status: Option<ExitStatus>,
    /// The last line of its standard error.
    pub last_words: String,
}

impl Child {
    /// Starts the command in a process group of its own, or says why that is not possible.
    pub fn start(settings: &CommandSettings) -> Result<Self, String> {
        let shown = settings.shown();
        let sentence = |why: &dyn std::fmt::Display| format!("the command {shown} cannot be started: {why}");
        let (name, arguments) =
            settings.command.split_first().ok_or_else(|| sentence(&"it names no program"))?;
        let path = program::find(name, &settings.folder).map_err(|problem| sentence(&problem))?;
        let mut command = settings.launching(&path);
        for name in &settings.withheld {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(&settings.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // With its own group, whatever it starts can be ended with it.
            .process_group(0)
            .kill_on_drop(true);
        let mut process = starter::start(command).map_err(|error| sentence(&error))?;
        let id = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| sentence(&"it ended at once"))?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let stdout = stdout.ok_or_else(|| sentence(&"it has no output"))?;
        let stdout = stdout.into_owned_fd().and_then(StdoutReader::open).map_err(|error| sentence(&error))?;
        let last_words = Arc::new(Mutex::new(String::new()));
        let stderr = process.stderr.take();
        let listening = tokio::spawn(listen(stderr, settings.feed.clone(), Arc::clone(&last_words)));
        let group = Group { id: Some(id), guard: Guard::over(id) };
        Ok(Child { process, group, stdin, stdout, listening, last_words })
    }

    /// Lets the child end by itself for as long as `grace`, then kills it and whatever it has started.
    pub async fn end(mut self, grace: Duration) -> Death {
        self.stdin = None;
        let by_itself = self.ended_within(grace).await;
        // Before it is buried: until then nobody else can have its number.
        self.group.kill();
        let status = tokio::time::timeout(BURIAL, self.process.wait()).await;
        // What it left running may hold the pipe open: its words are not waited for.
        drop(tokio::time::timeout(BURIAL, &mut self.listening).await);
        self.listening.abort();
        let status = status.ok().and_then(Result::ok).filter(|_| by_itself);
        let last_words = std::mem::take(&mut *self.last_words.lock().unwrap_or_else(PoisonError::into_inner));
        Death { status, last_words }
    }

    async fn ended_within(&self, grace: Duration) -> bool {
        let ended = async {
            while !self.group.leader_has_ended() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(grace, ended).await.is_ok()
    }
}

/// The process group of a child. Killed when it is dropped: nothing may outlive its owner.
struct Group {
    id: Option<Pid>,
    /// Sees to it when nobody can drop it.
    guard: Option<Guard>,
}

impl Group {
    /// Whether the child itself has ended. It is not buried by this.
    fn leader_has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.id.is_none_or(|id| !matches!(waitid(WaitId::Pid(id), look), Ok(None)))
    }

    fn kill(&mut self) {
        // First: once the child is buried, its number may be another's.
        self.guard = None;
        if let Some(id) = self.id.take() {
            // Fails only when nobody is left.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes the lines of a child's standard error into the log.
async fn listen(stderr: Option<ChildStderr>, feed: FeedName, last_words: Arc<Mutex<String>>) {
    let Some(stderr) = stderr else { return };
    let mut stderr = BufReader::with_capacity(LONGEST_LINE, stderr);
    let mut line = Vec::new();
    loop {
        let Ok(read) = stderr.fill_buf().await else { return };
        if read.is_empty() {
            return tell(&line, &feed, &last_words);
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(read.len(), |end| end + 1);
        line.extend_from_slice(&read[..end.unwrap_or(read.len())]);
        stderr.consume(taken);
        if end.is_some() || line.len() >= LONGEST_LINE {
            tell(&line, &feed, &last_words);
            line.clear();
        }
    }
}

fn tell(line: &[u8], feed: &FeedName, last_words: &Mutex<String>) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    tracing::info!(target: "seriatim::command", %feed, "{text}");
    let mut last = last_words.lock().unwrap_or_else(PoisonError::into_inner);
    *last = text.chars().take(200).collect();
}
