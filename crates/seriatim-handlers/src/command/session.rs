//! The life of one child: lines out, answers in, until it ends or nobody needs it.

use std::time::Duration;

use seriatim::clock;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::CommandSettings;
use super::child::Child;
use super::conversation::{Call, Conversation};
use super::end::{Ended, Why};

/// How long a child that closed its output may take to end by itself, so that its exit status is known.
const DYING: Duration = Duration::from_millis(500);

/// How long a child may take to end when it is not needed any more.
const PARTING: Duration = Duration::from_secs(5);

/// The life of one child.
pub struct Session<'a> {
    settings: &'a CommandSettings,
    child: Child,
    conversation: Conversation,
    /// What the child said, as far as it is no whole answer yet.
    inbox: Vec<u8>,
    /// How many bytes the child's input pipe has taken.
    written: u64,
    /// When the child last answered, or was first asked after it had answered all.
    active: Instant,
    /// A child that is idle for so long is ended.
    idle: Option<Duration>,
}

/// What the end of a child teaches.
pub struct Lesson {
    /// How many answers it gave.
    pub answers: u64,
    /// Nobody sends any more.
    pub closing: bool,
}

impl<'a> Session<'a> {
    pub fn new(settings: &'a CommandSettings, child: Child, ahead: usize, idle: Option<Duration>) -> Self {
        let conversation = Conversation::new(ahead);
        Session { settings, child, conversation, inbox: Vec::new(), written: 0, active: clock::now(), idle }
    }

    /// Talks with the child until it ends or is ended, beginning with this call.
    pub async fn run(mut self, first: Call, calls: &mut mpsc::Receiver<Call>) -> Lesson {
        self.conversation.say(first);
        let mut why = loop {
            match self.step(calls).await {
                Ok(()) => {}
                Err(why) => break why,
            }
        };
        if matches!(why, Why::Deaf) {
            why = self.hear_the_rest().await;
        }
        let closing = calls.is_closed() && calls.is_empty();
        let answers = self.conversation.answers();
        self.end(why).await;
        Lesson { answers, closing }
    }

    async fn step(&mut self, calls: &mut mpsc::Receiver<Call>) -> Result<(), Why> {
        let owes = self.conversation.owes() > 0;
        let patience = if owes { Some(self.settings.timeout) } else { self.idle };
        let until = patience.map(|patience| self.active + patience);
        let Child { stdin, stdout, .. } = &mut self.child;
        let stdin = stdin.as_mut().ok_or(Why::Deaf)?;
        tokio::select! {
            // Answers first: a child that cannot get rid of them does not read either.
            biased;
            said = stdout.hear() => self.heard(said),
            call = calls.recv(), if self.conversation.has_room() => {
                if !owes {
                    self.active = clock::now();
                }
                self.conversation.say(call.ok_or(Why::NotNeeded)?);
                stdout.awaits(self.conversation.owes());
                Ok(())
            }
            wrote = stdin.write(self.conversation.unsent()), if !self.conversation.unsent().is_empty() => {
                let wrote = wrote.map_err(|_| Why::Deaf)?;
                self.written += wrote as u64;
                self.conversation.sent(wrote);
                Ok(())
            }
            () = sleep_until(until) => {
                if !stdout.is_silent() {
                    // After a halt of this whole process, the time is up before what came in time was passed on.
                    let said = stdout.hear().await;
                    return self.heard(said);
                }
                Err(if owes { Why::Silent(self.settings.timeout) } else { Why::NotNeeded })
            }
        }
    }

    fn heard(&mut self, said: Option<Vec<u8>>) -> Result<(), Why> {
        self.inbox.extend_from_slice(&said.ok_or(Why::Closed)?);
        self.active = clock::now();
        self.conversation.hear(&mut self.inbox)?;
        self.child.stdout.awaits(self.conversation.owes());
        Ok(())
    }

    /// A child that does not read any more may have answered before: that counts.
    async fn hear_the_rest(&mut self) -> Why {
        let rest = async {
            loop {
                let said = self.child.stdout.hear().await;
                if let Err(why) = self.heard(said) {
                    return why;
                }
            }
        };
        tokio::time::timeout(DYING, rest).await.unwrap_or(Why::Deaf)
    }

    async fn end(self, why: Why) {
        let Session { child, conversation, settings, written, .. } = self;
        let unread = child.stdin.as_ref().and_then(|stdin| rustix::io::ioctl_fionread(stdin).ok());
        let read_nothing = conversation.answers() == 0 && written > 0 && unread == Some(written);
        let grace = match why {
            Why::NotNeeded => PARTING,
            Why::Closed | Why::Deaf => DYING,
            Why::Silent(_) | Why::Nonsense { .. } | Why::Unasked { .. } | Why::AnotherId { .. } => {
                Duration::ZERO
            }
        };
        let needed = !matches!(why, Why::NotNeeded);
        let death = child.end(grace).await;
        let ended = Ended {
            command: settings.shown(),
            why,
            next: conversation.next(),
            unanswered: conversation.owes(),
            status: death.status,
            last_words: death.last_words,
            read_nothing,
        };
        let (feed, unanswered) = (&settings.feed, ended.unanswered);
        match (needed, ended.status.is_some()) {
            (true, _) => tracing::warn!(%feed, unanswered, "{ended}"),
            (false, true) => {}
            (false, false) => {
                tracing::warn!(%feed, "the command {} did not end within {PARTING:?} and was killed", ended.command)
            }
        }
        conversation.end(ended);
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
