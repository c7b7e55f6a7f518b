//! The settings of windows that the environment overrides, as an operator relieves a blockage with them.

use std::num::NonZeroUsize;
use std::time::Duration;

use thiserror::Error;

use super::Rules;

/// The variable that overrides the buffer of all feeds.
pub const BUFFER: &str = "RECORD_CHANGE_WINDOW_BUFFER";

/// A variable whose value cannot be used, and why.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the environment variable {variable} must be {wanted}, not {value:?}; correct it or unset it")]
pub struct BadVariable {
    variable: String,
    wanted: &'static str,
    value: String,
}

/// What the environment says about the windows of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// From `RECORD_CHANGE_WINDOW_BUFFER`.
    pub buffer: Option<Duration>,
    /// From `<FEED>_EXCESSIVE_COUNT`.
    pub excessive_count: Option<NonZeroUsize>,
}

/// The name of the variable that overrides the excessive count of a feed: `invoices` has `INVOICES_EXCESSIVE_COUNT`.
pub fn excessive_count_variable(feed: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_EXCESSIVE_COUNT", feed.chars().map(letter).collect::<String>())
}

impl Overrides {
    /// What the process's environment says about the feed of this name.
    pub fn of(feed: &str) -> Result<Self, BadVariable> {
        Overrides::among(feed, |variable| {
            std::env::var_os(variable).map(|value| value.to_string_lossy().into())
        })
    }

    /// What these variables say about the feed of this name.
    pub fn among(feed: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadVariable> {
        let read = |name: String, wanted| {
            let given = variable(&name);
            move |good: bool| match given {
                Some(value) if !good => Err(BadVariable { variable: name, wanted, value }),
                _ => Ok(()),
            }
        };
        let buffer = variable(BUFFER).map(|value| buffer(&value));
        read(BUFFER.to_owned(), "a span of time longer than zero, such as 5s, 500ms or 2m")(
            buffer != Some(None),
        )?;
        let name = excessive_count_variable(feed);
        let count = variable(&name).map(|value| value.trim().parse().ok());
        read(name, "a whole number from 1")(count != Some(None))?;
        Ok(Overrides { buffer: buffer.flatten(), excessive_count: count.flatten() })
    }

    /// The rules with what the environment overrides.
    pub fn over(&self, rules: Rules) -> Rules {
        Rules {
            buffer: self.buffer.unwrap_or(rules.buffer),
            excessive_count: self.excessive_count.unwrap_or(rules.excessive_count),
            ..rules
        }
    }
}

/// A span of time longer than zero; a bare number counts seconds.
fn buffer(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    let span = Duration::try_from_secs_f64(number * unit).ok()?;
    (!span.is_zero()).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(variables: &[(&str, &str)]) -> Result<Overrides, BadVariable> {
        Overrides::among("order totals", |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_overrides_the_buffer_and_the_excessive_count() {
        let overrides =
            among(&[("RECORD_CHANGE_WINDOW_BUFFER", "2.5"), ("ORDER_TOTALS_EXCESSIVE_COUNT", "5000")])
                .unwrap();
        assert_eq!(overrides.buffer, Some(Duration::from_millis(2500)));
        assert_eq!(overrides.excessive_count, NonZeroUsize::new(5000));
        for (text, ms) in [("500ms", 500), ("2 s", 2000), ("1m", 60_000), ("1h", 3_600_000)] {
            let overrides = among(&[("RECORD_CHANGE_WINDOW_BUFFER", text)]).unwrap();
            assert_eq!(overrides.buffer, Some(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(among(&[]).unwrap(), Overrides::default());
    }

    #[test]
    fn values_that_make_no_sense_are_refused_with_a_sentence() {
        for value in ["0", "-5s", "soon", "", "NaN", "inf", "5 days", "0ms", "1e300"] {
            let said = among(&[("RECORD_CHANGE_WINDOW_BUFFER", value)]).unwrap_err().to_string();
            assert!(said.contains("RECORD_CHANGE_WINDOW_BUFFER must be a span of time"), "{said}");
            assert!(said.contains(&format!("not {value:?}")), "{said}");
        }
        for value in ["0", "-1", "many", "", "1.5"] {
            let said = among(&[("ORDER_TOTALS_EXCESSIVE_COUNT", value)]).unwrap_err().to_string();
            assert!(said.contains("ORDER_TOTALS_EXCESSIVE_COUNT must be a whole number from 1"), "{said}");
        }
    }
}
