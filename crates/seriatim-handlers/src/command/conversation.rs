//! What was said to a child and what it still owes an answer to. Pure: no I/O, no clock.

use std::collections::VecDeque;
use std::sync::Arc;

use seriatim::Failure;
use tokio::sync::oneshot;

use super::answer;
use super::end::{Ended, Why};

/// A line that takes longer than this to end is no answer.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Lines are made ready up to this many bytes ahead of what the pipe takes.
const READY: usize = 64 * 1024;

/// One change on its way to a child.
pub struct Call {
    pub id: u64,
    pub line: String,
    pub reply: oneshot::Sender<Outcome>,
}

/// What became of it.
#[derive(Debug)]
pub enum Outcome {
    /// The child answered.
    Answered(Result<(), Failure>),
    /// The child ended, and this was among what it had not answered.
    Ended(Arc<Ended>),
}

struct Owed {
    id: u64,
    reply: oneshot::Sender<Outcome>,
}

/// The talk with one child.
pub struct Conversation {
    outbox: Vec<u8>,
    /// How much of the outbox the pipe has taken.
    taken: usize,
    owed: VecDeque<Owed>,
    ahead: usize,
    answers: u64,
}

impl Conversation {
    /// A talk in which at most `ahead` lines are unanswered.
    pub fn new(ahead: usize) -> Self {
        Conversation { outbox: Vec::new(), taken: 0, owed: VecDeque::new(), ahead: ahead.max(1), answers: 0 }
    }

    /// How many further lines may be said now.
    pub fn room(&self) -> usize {
        if self.unsent().len() >= READY { 0 } else { self.ahead.saturating_sub(self.owed.len()) }
    }

    /// Says one more line, unless nobody waits for its answer any more: then it must not be said.
    pub fn say(&mut self, call: Call) {
        if call.reply.is_closed() {
            return;
        }
        if self.taken == self.outbox.len() {
            self.outbox.clear();
            self.taken = 0;
        }
        self.outbox.extend_from_slice(call.line.as_bytes());
        self.outbox.push(b'\n');
        self.owed.push_back(Owed { id: call.id, reply: call.reply });
    }

    /// What the pipe has still to take.
    pub fn unsent(&self) -> &[u8] {
        &self.outbox[self.taken..]
    }

    /// The pipe has taken so many bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Passes on, and takes out, every whole answer in the inbox; says why when the child cannot be trusted any more.
    pub fn hear(&mut self, inbox: &mut Vec<u8>) -> Result<(), Why> {
        let mut heard = 0;
        while let Some(length) = inbox[heard..].iter().position(|byte| *byte == b'\n') {
            self.answered(&inbox[heard..heard + length])?;
            heard += length + 1;
        }
        if inbox.len() - heard > LONGEST_ANSWER {
            return Err(Why::nonsense(&inbox[heard..]));
        }
        inbox.drain(..heard);
        Ok(())
    }

    fn answered(&mut self, line: &[u8]) -> Result<(), Why> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(next) = self.owed.front() else { return Err(Why::unasked(line)) };
        let answer = answer::read(line).ok_or_else(|| Why::nonsense(line))?;
        if let Some(id) = answer.id.filter(|id| *id != next.id) {
            return Err(Why::AnotherId { id });
        }
        self.answers += 1;
        if let Some(next) = self.owed.pop_front() {
            // Nobody waits for it when the lease was lost meanwhile: then it does not count.
            drop(next.reply.send(Outcome::Answered(answer.result)));
        }
        Ok(())
    }

    /// How many lines are unanswered.
    pub fn owes(&self) -> usize {
        self.owed.len()
    }

    /// The change whose answer is next.
    pub fn next(&self) -> Option<u64> {
        self.owed.front().map(|owed| owed.id)
    }

    /// How many answers there were.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Tells everybody who still waits that the child has ended.
    pub fn end(self, ended: Ended) {
        let ended = Arc::new(ended);
        for owed in self.owed {
            drop(owed.reply.send(Outcome::Ended(Arc::clone(&ended))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64) -> (Call, oneshot::Receiver<Outcome>) {
        let (reply, outcome) = oneshot::channel();
        (Call { id, line: format!("line {id}"), reply }, outcome)
    }

    fn hear(conversation: &mut Conversation, text: &str) -> Result<Vec<u8>, Why> {
        let mut inbox = text.as_bytes().to_vec();
        conversation.hear(&mut inbox).map(|()| inbox)
    }

    fn is_ok(outcome: &mut oneshot::Receiver<Outcome>) -> bool {
        matches!(outcome.try_recv(), Ok(Outcome::Answered(Ok(()))))
    }

    #[test]
    fn answers_belong_to_the_oldest_line() {
        let mut conversation = Conversation::new(2);
        let ((first, mut one), (second, mut two)) = (call(1), call(2));
        conversation.say(first);
        conversation.say(second);
        assert_eq!((conversation.unsent(), conversation.room()), (&b"line 1\nline 2\n"[..], 0));
        let rest = hear(&mut conversation, "{\"ok\":true}\r\n{\"error\":").unwrap();
        assert_eq!(rest, b"{\"error\":");
        assert!(is_ok(&mut one));
        assert_eq!((conversation.next(), conversation.room()), (Some(2), 1));
        hear(&mut conversation, "{\"error\":\"no\"}\n").unwrap();
        assert!(matches!(two.try_recv(), Ok(Outcome::Answered(Err(_)))));
    }

    #[test]
    fn an_answer_nobody_asked_for_ends_the_trust() {
        let mut conversation = Conversation::new(2);
        let (first, mut one) = call(1);
        conversation.say(first);
        let why = hear(&mut conversation, "{\"ok\":true}\n{\"ok\":true}\n").unwrap_err();
        assert!(matches!(why, Why::Unasked { .. }), "{why:?}");
        assert!(is_ok(&mut one));
    }

    #[test]
    fn an_answer_for_another_change_ends_the_trust() {
        let mut conversation = Conversation::new(2);
        let (first, mut one) = call(1);
        conversation.say(first);
        let why = hear(&mut conversation, "{\"ok\":true,\"id\":2}\n").unwrap_err();
        assert!(matches!(why, Why::AnotherId { id: 2 }), "{why:?}");
        assert!(one.try_recv().is_err(), "it is not answered");
    }

    #[test]
    fn an_answer_without_end_is_not_waited_for() {
        let mut conversation = Conversation::new(2);
        let (first, _one) = call(1);
        conversation.say(first);
        assert!(hear(&mut conversation, &"x".repeat(LONGEST_ANSWER)).is_ok());
        assert!(hear(&mut conversation, &"x".repeat(LONGEST_ANSWER + 1)).is_err());
    }

    #[test]
    fn what_nobody_waits_for_is_not_said() {
        let mut conversation = Conversation::new(2);
        let (first, one) = call(1);
        drop(one);
        conversation.say(first);
        assert_eq!((conversation.unsent().len(), conversation.owes()), (0, 0));
    }
}
