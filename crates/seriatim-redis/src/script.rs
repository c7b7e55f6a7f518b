//! Lua scripts, called by their hash.

use redis::{Cmd, Value};

/// A Lua script whose first key says in which slot it runs.
pub struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    /// A script of this code.
    pub fn new(code: &'static str) -> Self {
        Script { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    pub(crate) fn by_hash(&self, key: &str, arguments: &[&[u8]]) -> Cmd {
        call("EVALSHA", &self.hash, key, arguments)
    }

    /// The whole script, for a server that does not know it (any more): it was flushed, or another one took over.
    pub(crate) fn whole(&self, key: &str, arguments: &[&[u8]]) -> Cmd {
        call("EVAL", self.code, key, arguments)
    }
}

fn call(how: &str, script: &str, key: &str, arguments: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(how);
    command.arg(script).arg(1).arg(key);
    for argument in arguments {
        command.arg(*argument);
    }
    command
}

/// A reply that is a list of byte strings.
pub fn strings(reply: Value) -> Option<Vec<Vec<u8>>> {
    let Value::Array(parts) = reply else { return None };
    parts.into_iter().map(string).collect()
}

/// One byte string; numbers are written out.
pub fn string(part: Value) -> Option<Vec<u8>> {
    match part {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::Int(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}
