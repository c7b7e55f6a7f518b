//! Results as JSON, whoever recorded them. Pure.

use serde_json::value::RawValue;

/// A recorded result as one line of JSON: as it is where it is JSON, else as a text; bytes that are no text in base64.
pub fn as_json(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return seriatim::Value::Bytes(bytes.into()).to_json().to_string();
    };
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => on_one_line(value.get()),
        Err(_) if text.is_empty() => "null".to_owned(),
        Err(_) => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// JSON without the whitespace between its parts. Its numbers keep all their digits.
fn on_one_line(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |letter: &char| {
        let blank = !in_text && letter.is_ascii_whitespace();
        if *letter == '"' && !escaped {
            in_text = !in_text;
        }
        escaped = *letter == '\\' && !escaped;
        !blank
    };
    json.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_as_it_is_on_one_line() {
        assert_eq!(
            as_json(b"{\"a\": 123456789012345678901234567890.10,\n \"b\": \" \\\" \\\\\"}\n"),
            r#"{"a":123456789012345678901234567890.10,"b":" \" \\"}"#
        );
        assert_eq!(as_json(b"null"), "null");
    }

    #[test]
    fn other_results_are_texts() {
        assert_eq!(as_json(b""), "null");
        assert_eq!(as_json(b"sent to \"ada\"\n"), r#""sent to \"ada\"\n""#);
        assert_eq!(as_json(b"\xff\x00"), r#""/wA=""#);
    }
}
