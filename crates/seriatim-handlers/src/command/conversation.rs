//! What was said to a child and what it still owes an answer to. Pure: no I/O, no clock.

use std::collections::VecDeque;
use std::sync::Arc;

use seriatim::Failure;
use tokio::sync::{mpsc, oneshot};

use super::answer;
use super::end::{Ended, Why};

/// A line that takes longer than this to end is no answer.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Lines are made ready up to this many bytes ahead of what the pipe takes.
const READY: usize = 64 * 1024;

/// Changes on their way to a child, each of another object.
pub struct Call {
    pub ids: Vec<u64>,
    /// A line for each.
    pub lines: Vec<u8>,
    pub reply: oneshot::Sender<Reply>,
    /// Hears the place of each that is done, as soon as the child says so.
    pub done: Option<mpsc::UnboundedSender<usize>>,
}

/// What became of them.
#[derive(Debug)]
pub struct Reply {
    /// What the child answered, in order.
    pub answers: Vec<Result<(), Failure>>,
    /// How the child ended, when it did so before it had answered them all.
    pub ended: Option<Arc<Ended>>,
}

struct Owed {
    ids: Vec<u64>,
    answers: Vec<Result<(), Failure>>,
    reply: oneshot::Sender<Reply>,
    done: Option<mpsc::UnboundedSender<usize>>,
}

impl Owed {
    fn next(&self) -> Option<u64> {
        self.ids.get(self.answers.len()).copied()
    }

    fn settle(self, ended: Option<Arc<Ended>>) {
        // Nobody waits for it when the lease was lost meanwhile: then it does not count.
        drop(self.reply.send(Reply { answers: self.answers, ended }));
    }
}

/// The talk with one child.
pub struct Conversation {
    outbox: Vec<u8>,
    /// How much of the outbox the pipe has taken.
    taken: usize,
    owed: VecDeque<Owed>,
    /// How many lines are unanswered, and how many may be.
    unanswered: usize,
    ahead: usize,
    answers: u64,
}

impl Conversation {
    /// A talk in which at most `ahead` lines are unanswered.
    pub fn new(ahead: usize) -> Self {
        let (outbox, owed) = (Vec::new(), VecDeque::new());
        Conversation { outbox, taken: 0, owed, unanswered: 0, ahead: ahead.max(1), answers: 0 }
    }

    /// Whether more may be said now.
    pub fn has_room(&self) -> bool {
        self.unsent().len() < READY && self.unanswered < self.ahead
    }

    /// Says these lines too, unless nobody waits for their answers any more: then they must not be said.
    pub fn say(&mut self, call: Call) {
        if call.reply.is_closed() || call.ids.is_empty() {
            return;
        }
        if self.taken == self.outbox.len() {
            self.outbox.clear();
            self.taken = 0;
        }
        self.outbox.extend_from_slice(&call.lines);
        self.unanswered += call.ids.len();
        let answers = Vec::with_capacity(call.ids.len());
        self.owed.push_back(Owed { ids: call.ids, answers, reply: call.reply, done: call.done });
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
        let Some(owed) = self.owed.front_mut() else { return Err(Why::unasked(line)) };
        let answer = answer::read(line).ok_or_else(|| Why::nonsense(line))?;
        if let Some(id) = answer.id.filter(|id| owed.next() != Some(*id)) {
            return Err(Why::AnotherId { id });
        }
        if let (Ok(()), Some(done)) = (&answer.result, &owed.done) {
            // Nobody listens any more when the lease was lost meanwhile.
            _ = done.send(owed.answers.len());
        }
        owed.answers.push(answer.result);
        let is_last = owed.next().is_none();
        self.answers += 1;
        self.unanswered -= 1;
        if is_last && let Some(owed) = self.owed.pop_front() {
            owed.settle(None);
        }
        Ok(())
    }

    /// How many lines are unanswered.
    pub fn owes(&self) -> usize {
        self.unanswered
    }

    /// The change whose answer is next.
    pub fn next(&self) -> Option<u64> {
        self.owed.front().and_then(Owed::next)
    }

    /// How many answers there were.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Tells everybody who still waits that the child has ended.
    pub fn end(self, ended: Ended) {
        let ended = Arc::new(ended);
        for owed in self.owed {
            owed.settle(Some(Arc::clone(&ended)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(ids: &[u64]) -> (Call, oneshot::Receiver<Reply>) {
        let (reply, outcome) = oneshot::channel();
        let lines = ids.iter().map(|id| format!("line {id}\n")).collect::<String>().into_bytes();
        (Call { ids: ids.to_vec(), lines, reply, done: None }, outcome)
    }

    fn hear(conversation: &mut Conversation, text: &str) -> Result<Vec<u8>, Why> {
        let mut inbox = text.as_bytes().to_vec();
        conversation.hear(&mut inbox).map(|()| inbox)
    }

    fn oks(outcome: &mut oneshot::Receiver<Reply>) -> Vec<bool> {
        outcome
            .try_recv()
            .map_or_else(|_| Vec::new(), |reply| reply.answers.iter().map(Result::is_ok).collect())
    }

    #[test]
    fn answers_belong_to_the_oldest_line() {
        let mut conversation = Conversation::new(3);
        let ((first, mut one), (second, mut two)) = (call(&[1, 2]), call(&[3]));
        conversation.say(first);
        assert!(conversation.has_room());
        conversation.say(second);
        assert_eq!(
            (conversation.unsent(), conversation.has_room()),
            (&b"line 1\nline 2\nline 3\n"[..], false)
        );
        let rest = hear(&mut conversation, "{\"ok\":true}\r\n{\"error\":").unwrap();
        assert_eq!(rest, b"{\"error\":");
        assert_eq!((conversation.next(), conversation.owes()), (Some(2), 2));
        hear(&mut conversation, "{\"error\":\"no\"}\n{\"ok\":true}\n").unwrap();
        assert_eq!((oks(&mut one), oks(&mut two)), (vec![true, false], vec![true]));
    }

    #[test]
    fn an_answer_nobody_asked_for_ends_the_trust() {
        let mut conversation = Conversation::new(2);
        let (first, mut one) = call(&[1]);
        conversation.say(first);
        let why = hear(&mut conversation, "{\"ok\":true}\n{\"ok\":true}\n").unwrap_err();
        assert!(matches!(why, Why::Unasked { .. }), "{why:?}");
        assert_eq!(oks(&mut one), [true]);
    }

    #[test]
    fn an_answer_for_another_change_ends_the_trust() {
        let mut conversation = Conversation::new(2);
        let (first, mut one) = call(&[1]);
        conversation.say(first);
        let why = hear(&mut conversation, "{\"ok\":true,\"id\":2}\n").unwrap_err();
        assert!(matches!(why, Why::AnotherId { id: 2 }), "{why:?}");
        assert!(one.try_recv().is_err(), "it is not answered");
    }

    #[test]
    fn an_answer_without_end_is_not_waited_for() {
        let mut conversation = Conversation::new(2);
        let (first, _one) = call(&[1]);
        conversation.say(first);
        assert!(hear(&mut conversation, &"x".repeat(LONGEST_ANSWER)).is_ok());
        assert!(hear(&mut conversation, &"x".repeat(LONGEST_ANSWER + 1)).is_err());
    }

    #[test]
    fn what_nobody_waits_for_is_not_said() {
        let mut conversation = Conversation::new(2);
        let (first, one) = call(&[1]);
        drop(one);
        conversation.say(first);
        assert_eq!((conversation.unsent().len(), conversation.owes()), (0, 0));
    }
}
