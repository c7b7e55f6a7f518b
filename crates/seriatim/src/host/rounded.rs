//! Times as people read them: two or three digits, one unit.

use std::fmt;
use std::time::Duration;

/// A time, rounded for people: `140ms`, `1.9s`, `5m`, `1h 30m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, s) = (self.0.as_millis(), (self.0.as_millis() + 500) / 1000);
        match ms {
            0..100 => write!(f, "{ms}ms"),
            100..995 => write!(f, "{}ms", (ms + 5) / 10 * 10),
            995..9_950 => {
                let tenths = (ms + 50) / 100;
                match tenths % 10 {
                    0 => write!(f, "{}s", tenths / 10),
                    rest => write!(f, "{}.{rest}s", tenths / 10),
                }
            }
            _ if s < 120 => write!(f, "{s}s"),
            _ if s < 7_200 => with_rest(f, (s / 60, "m"), (s % 60, "s")),
            _ => with_rest(f, (s / 3_600, "h"), (s % 3_600 / 60, "m")),
        }
    }
}

fn with_rest(f: &mut fmt::Formatter<'_>, whole: (u128, &str), rest: (u128, &str)) -> fmt::Result {
    write!(f, "{}{}", whole.0, whole.1)?;
    match rest.0 {
        0 => Ok(()),
        count => write!(f, " {count}{}", rest.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_few_digits() {
        let shown = |ms: u64| Rounded(Duration::from_millis(ms)).to_string();
        let cases =
            [(7, "7ms"), (142, "140ms"), (994, "990ms"), (999, "1s"), (1_888, "1.9s"), (9_970, "10s")];
        for (ms, text) in cases {
            assert_eq!(shown(ms), text);
        }
        assert_eq!(Rounded(Duration::from_micros(142_818)).to_string(), "140ms");
        assert_eq!([shown(90_000), shown(300_000), shown(330_000)], ["90s", "5m", "5m 30s"]);
        assert_eq!([shown(7_200_000), shown(5_400_000 * 2)], ["2h", "3h"]);
    }
}
