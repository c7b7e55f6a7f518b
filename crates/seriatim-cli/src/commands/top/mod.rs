//! `seriatim top`: feeds, partitions, parked objects and hosts in a terminal, and keys to act on them.
//!
//! ```text
//!   looker, every 2 s ──▶ picture ──▶ ┌───────┐ ──▶ draw ──▶ terminal
//!                          key    ──▶ │ state │
//!                                     └───────┘ ──▶ wish ──▶ the page's panel, noted as its actions are
//! ```
//!
//! It lives from what `status --json` shows, and from the panel of `seriatim serve`.

mod draw;
mod keys;
mod picture;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use seriatim::clock;
use seriatim_dashboard::{Action, MOST, Panel as _, ParkedQuery, Refusal, carry_out};
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use super::serve::panel::ConfigPanel;
use crate::args::Top;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::unix_signals;
use keys::{Wish, on};
use picture::{Picture, told};
use state::{State, Tone};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Top) -> Result<()> {
    refuse_without_terminal()?;
    let shutdown = unix_signals::shutdown()?;
    let mut state = State::new(arguments.read_only);
    let panel = Arc::new(ConfigPanel::new(config));
    let mut terminal = terminal::Taken::take()?;
    let shown = tokio::select! {
        biased;
        () = shutdown => Ok(()),
        shown = show(&mut terminal, &mut state, &panel) => shown,
    };
    terminal.give_back()?;
    shown
}

fn refuse_without_terminal() -> Result<()> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Error::usage("top draws on a terminal, and the standard input or output is none").help(
        "run it in a terminal (with ssh: `ssh -t`), or use `seriatim status --watch` or `status --json`",
    ))
}

/// What comes from outside.
enum News {
    /// Somebody has looked.
    Seen(Result<Picture, Refusal>),
    /// What came of an action.
    Done(Action, Result<(), Refusal>),
}

async fn show(terminal: &mut terminal::Taken, state: &mut State, panel: &Arc<ConfigPanel>) -> Result<()> {
    let (tell, mut news) = mpsc::channel(16);
    let now = Arc::new(Notify::new());
    let looker = tokio::spawn(look_on(Arc::clone(panel), tell.clone(), Arc::clone(&now)));
    let looker = AbortOnDrop(looker);
    let mut keys = EventStream::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        state.now = clock::wall();
        terminal.draw(|frame| draw::draw(frame, state))?;
        if looker.0.is_finished() {
            return Err(Error::failed("the look at the store ended badly"));
        }
        let wish = tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => on(key, state),
                Some(Ok(_)) => None,
                Some(Err(cause)) => return Err(Error::failed("the terminal gives no keys").caused_by(cause)),
                None => return Ok(()),
            },
            Some(news) = news.recv() => {
                learn(state, news, &now);
                None
            }
            _ = ticks.tick() => None,
        };
        match wish {
            Some(Wish::Quit) => return Ok(()),
            Some(Wish::Look) => now.notify_one(),
            Some(Wish::Act(action)) => drop(tokio::spawn(act(Arc::clone(panel), action, tell.clone()))),
            None => {}
        }
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn learn(state: &mut State, news: News, now: &Notify) {
    match news {
        News::Seen(Ok(picture)) => state.see(picture),
        News::Seen(Err(refusal)) => state.trouble = Some(told(&refusal)),
        News::Done(action, outcome) => {
            state.note = Some(match outcome {
                Ok(()) => (Tone::Good, picture::done(&action)),
                Err(refusal) => (Tone::Bad, told(&refusal)),
            });
            now.notify_one();
        }
    }
}

/// Looks again and again, and at once when it is asked to.
async fn look_on(panel: Arc<ConfigPanel>, tell: mpsc::Sender<News>, now: Arc<Notify>) {
    loop {
        let seen = look(&panel).await;
        if tell.send(News::Seen(seen)).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = now.notified() => {}
        }
    }
}

async fn look(panel: &ConfigPanel) -> Result<Picture, Refusal> {
    let report = panel.report().await?;
    let parked = match report.feeds.iter().any(|feed| feed.parked > 0) {
        true => panel.parked(&ParkedQuery { limit: Some(MOST), ..ParkedQuery::default() }).await?.lines,
        false => Vec::new(),
    };
    Ok(Picture::new(report, parked, clock::wall()))
}

/// Carries an action out, and has it noted as that of this user.
async fn act(panel: Arc<ConfigPanel>, action: Action, tell: mpsc::Sender<News>) {
    let outcome = carry_out(&*panel, &action, &user(), None).await.map(drop);
    // Who has quit hears nothing more.
    drop(tell.send(News::Done(action, outcome)).await);
}

/// The name in the log of actions: that of the system's user.
fn user() -> String {
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = name.filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    format!("{name} (top)")
}
