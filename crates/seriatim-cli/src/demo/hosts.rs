//! The demo's hosts: real processes of this same program, which can be killed for real.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seriatim::clock;

use crate::children;
use crate::error::{Error, Result};

/// The program, bound to this process where the system can do it: a demo that is killed leaves no hosts behind. The demo starts
/// its hosts from its main thread, which is the one that the bond means.
fn bound(program: &Path) -> Command {
    let Some((launcher, step)) =
        children::launcher().split_first().map(|(first, rest)| (first.clone(), rest.to_vec()))
    else {
        return Command::new(program);
    };
    let mut command = Command::new(launcher);
    command.args(step).arg(std::process::id().to_string()).arg(program);
    command
}

/// A host of the demo.
pub struct DemoHost {
    /// Its name.
    pub name: String,
    process: Child,
    /// What became of it, when it is not running any more.
    pub fate: Option<String>,
}

impl DemoHost {
    /// Starts `seriatim run` under this name. Its logs go to a file in the folder.
    pub fn start(name: &str, folder: &Path) -> Result<Self> {
        let program =
            std::env::current_exe().map_err(|cause| cannot("find this program").caused_by(cause))?;
        let log = OpenOptions::new().create(true).append(true).open(folder.join("hosts.log"));
        let log = log.map_err(|cause| cannot("write the hosts' log").caused_by(cause))?;
        let process = bound(&program)
            .args(["run", "--host", name, "-c"])
            .arg(folder.join("seriatim.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|cause| cannot("start a host").caused_by(cause))?;
        Ok(DemoHost { name: name.to_owned(), process, fate: None })
    }

    /// Kills it as `kill -9` does: it gets no chance to tidy up.
    pub fn kill(&mut self, when: Duration) -> Result<()> {
        self.process.kill().map_err(|cause| cannot("kill a host").caused_by(cause))?;
        self.process.wait().map_err(|cause| cannot("wait for a host").caused_by(cause))?;
        self.fate = Some(format!("killed with -9 at {:.0} s", when.as_secs_f64()));
        Ok(())
    }

    /// Whether it runs. A host that ended by itself is a failure of the demo.
    pub fn check(&mut self) -> Result<()> {
        if self.fate.is_some() {
            return Ok(());
        }
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::failed(format!("{} ended by itself: {status}", self.name))),
            Err(cause) => Err(cannot("look at a host").caused_by(cause)),
        }
    }

    /// Asks it to end, and waits for that.
    pub fn stop(&mut self, within: Duration) -> Result<()> {
        if self.fate.is_some() {
            return Ok(());
        }
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(|cause| cannot("stop a host").caused_by(cause))?;
        self.fate = Some("stopped".to_owned());
        let asked = clock::now();
        while asked.elapsed() < within {
            if let Ok(Some(status)) = self.process.try_wait() {
                return match status.success() {
                    true => Ok(()),
                    false => Err(Error::failed(format!("{} ended with {status}", self.name))),
                };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Error::failed(format!("{} did not end within {within:?}", self.name)))
    }
}

impl Drop for DemoHost {
    fn drop(&mut self) {
        // Whatever happens to the demo, it leaves no process behind. One that has ended already cannot be killed.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn cannot(what: &str) -> Error {
    Error::failed(format!("the demo cannot {what}"))
}
