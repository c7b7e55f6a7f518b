//! Lengths of time as people write them: `50ms`, `1s`, `2m`, `1h 30m`, `30d`.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use seriatim::handler::Backoff;

use super::url::quoted;

/// How to write a duration, for those who did not.
const EXAMPLES: &str = r#"such as "50ms", "1s" or "2m""#;

/// Reads a duration longer than zero, or says what is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let not_one = || format!("must be a duration {EXAMPLES}, not {}", quoted(text));
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!(
            "needs a unit: {text:?} could be {:?} or {:?}",
            format!("{text}s"),
            format!("{text}ms")
        ));
    }
    let span: Span = text.parse().map_err(|_| not_one())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| not_one())?;
    match Duration::try_from(signed) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("must be longer than zero, not {}", quoted(text))),
    }
}

/// Reads the first and the longest pause between attempts: `100ms..30s`.
pub fn backoff(text: &str) -> Result<Backoff, String> {
    let Some((first, longest)) = text.split_once("..") else {
        return Err(format!(
            r#"must be the first and the longest pause, such as "100ms..30s", not {}"#,
            quoted(text)
        ));
    };
    let backoff = Backoff { first: duration(first.trim())?, longest: duration(longest.trim())? };
    if backoff.first > backoff.longest {
        return Err(format!("must begin with the shorter pause, not {}", quoted(text)));
    }
    Ok(backoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
    }

    #[test]
    fn what_is_no_duration_is_told_why() {
        assert!(duration("5").unwrap_err().contains("needs a unit"));
        assert!(duration("0s").unwrap_err().contains("longer than zero"));
        assert!(duration("-1s").unwrap_err().contains("longer than zero"));
        for text in ["", "soon", "1 parsec", "s", "1mo", "99999999999999999999s", "."] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_backoff_goes_from_short_to_long() {
        let expected = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
        assert_eq!(backoff("100ms..30s"), Ok(expected));
        assert_eq!(backoff("100ms .. 30s"), Ok(expected));
        assert!(backoff("30s..100ms").is_err());
        assert!(backoff("30s").is_err());
        assert!(backoff("1s..").is_err());
    }
}
