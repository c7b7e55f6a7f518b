//! What a command may answer. Pure.

use std::time::Duration;

use serde::Deserialize;
use seriatim::Failure;

/// The longest pause that an answer can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// An answer as it is written.
#[derive(Deserialize)]
struct Written {
    ok: Option<bool>,
    error: Option<serde_json::Value>,
    retry: Option<bool>,
    wait: Option<bool>,
    retry_after: Option<f64>,
    id: Option<u64>,
}

/// What an answer says.
#[derive(Debug)]
pub struct Answer {
    /// Whether the change is handled.
    pub result: Result<(), Failure>,
    /// The change that the answer says it is about.
    pub id: Option<u64>,
}

/// Reads a line; `None` when it is no answer.
pub fn read(line: &[u8]) -> Option<Answer> {
    // The usual case, a million times.
    if line == br#"{"ok":true}"# {
        return Some(Answer { result: Ok(()), id: None });
    }
    let written: Written = serde_json::from_slice(line).ok()?;
    let id = written.id;
    let result = match (written.ok, &written.error) {
        (Some(true), None) => Ok(()),
        (None | Some(false), Some(error)) => Err(failure(text(error), &written)),
        _ => return None,
    };
    Some(Answer { result, id })
}

fn text(error: &serde_json::Value) -> String {
    error.as_str().map_or_else(|| error.to_string(), str::to_owned)
}

fn failure(error: String, written: &Written) -> Failure {
    let failure = match (written.wait, written.retry) {
        (Some(true), _) => Failure::target(error),
        (_, Some(false)) => Failure::poison(error),
        _ => Failure::change(error),
    };
    let pause = written.retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Failure { retry_after: pause.map(|pause| pause.min(LONGEST_PAUSE)), ..failure }
}

#[cfg(test)]
mod tests {
    use seriatim::handler::FailureKind;

    use super::*;

    fn kind(line: &str) -> FailureKind {
        read(line.as_bytes()).unwrap().result.unwrap_err().kind
    }

    #[test]
    fn an_answer_is_ok_or_an_error() {
        assert!(read(br#"{"ok":true}"#).unwrap().result.is_ok());
        assert!(read(br#" { "ok" : true, "took": 3 }"#).unwrap().result.is_ok());
        let failure = read(br#"{"error":"no such customer"}"#).unwrap().result.unwrap_err();
        assert_eq!((failure.kind, failure.to_string().as_str()), (FailureKind::Change, "no such customer"));
        assert_eq!(read(br#"{"ok":true,"id":17}"#).unwrap().id, Some(17));
    }

    #[test]
    fn an_error_can_say_what_to_do_about_it() {
        assert_eq!(kind(r#"{"error":"never","retry":false}"#), FailureKind::Poison);
        assert_eq!(kind(r#"{"error":"again","retry":true}"#), FailureKind::Change);
        assert_eq!(kind(r#"{"error":"the mail server is down","wait":true}"#), FailureKind::Target);
        let later = read(br#"{"error":"busy","wait":true,"retry_after":1.5}"#).unwrap().result.unwrap_err();
        assert_eq!(later.retry_after, Some(Duration::from_millis(1500)));
        let late = read(br#"{"error":"busy","retry_after":1e9}"#).unwrap().result.unwrap_err();
        assert_eq!(late.retry_after, Some(LONGEST_PAUSE));
        let never = read(br#"{"error":"busy","retry_after":-1}"#).unwrap().result.unwrap_err();
        assert_eq!(never.retry_after, None);
        assert_eq!(kind(r#"{"error":{"code":5}}"#), FailureKind::Change);
    }

    #[test]
    fn anything_else_is_no_answer() {
        for line in
            ["", "ok", "true", "{}", r#"{"ok":false}"#, r#"{"ok":true,"error":"x"}"#, r#"{"ok":1}"#, "[1]"]
        {
            assert!(read(line.as_bytes()).is_none(), "{line}");
        }
        assert!(read(b"\xff\xfe").is_none());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_is_an_answer_or_none(line in prop::collection::vec(any::<u8>(), 0..80)) {
            drop(read(&line));
        }

        #[test]
        fn what_looks_like_an_answer_asks_for_no_endless_pause(
            line in r#"\{"(ok|error)":(true|false|null|"\PC{0,8}"|[0-9]{1,3})(,"(retry|wait)":(true|false))?(,"retry_after":-?[0-9]{1,30}(\.[0-9]{1,4})?(e[0-9]{1,3})?)?(,"id":-?[0-9]{1,22})?\}"#
        ) {
            if let Some(Answer { result: Err(failure), .. }) = read(line.as_bytes()) {
                prop_assert!(failure.retry_after.is_none_or(|pause| pause <= LONGEST_PAUSE));
            }
        }
    }
}
