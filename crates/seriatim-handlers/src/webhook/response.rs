//! What an answer means.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use seriatim::{Failure, clock};

/// No more of an answer's body than this is read.
const MOST_READ: usize = 64 * 1024;

/// So much of it is repeated in a sentence.
const QUOTED: usize = 200;

/// The longest pause that an answer can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// An answer that has arrived whole.
pub struct Answer {
    status: StatusCode,
    pause: Option<Duration>,
    location: Option<String>,
    body: Vec<u8>,
}

/// Why changes are not done.
#[derive(Debug)]
pub enum Trouble {
    /// Whether they were done is not known.
    Unclear(Failure),
    /// They were not done.
    Clear(Failure),
}

impl Trouble {
    pub fn into_failure(self) -> Failure {
        match self {
            Trouble::Unclear(failure) | Trouble::Clear(failure) => failure,
        }
    }

    /// Says first which address it is about.
    pub fn about(self, address: &str) -> Self {
        let prefixed = |failure: Failure| Failure { cause: format!("{address} {failure}").into(), ..failure };
        match self {
            Trouble::Unclear(failure) => Trouble::Unclear(prefixed(failure)),
            Trouble::Clear(failure) => Trouble::Clear(prefixed(failure)),
        }
    }
}

/// Reads an answer to its end, as far as it matters. One that breaks off is none.
pub async fn read(mut response: Response) -> Result<Answer, reqwest::Error> {
    let status = response.status();
    let pause = pause(response.headers());
    let location =
        response.headers().get(LOCATION).and_then(|place| place.to_str().ok()).map(without_parameters);
    let mut body = Vec::new();
    while body.len() < MOST_READ
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk[..chunk.len().min(MOST_READ - body.len())]);
    }
    Ok(Answer { status, pause, location, body })
}

impl Answer {
    /// Whether the changes are done.
    pub fn verdict(&self) -> Result<(), Trouble> {
        if self.status.is_success() {
            return Ok(());
        }
        let said = self.sentence();
        let later = |failure: Failure| Failure { retry_after: self.pause, ..failure };
        Err(match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Trouble::Clear(later(Failure::target(said)))
            }
            StatusCode::REQUEST_TIMEOUT => Trouble::Unclear(later(Failure::change(said))),
            status if status.is_client_error() => Trouble::Clear(Failure::poison(said)),
            status if status.is_redirection() => Trouble::Clear(Failure::target(said)),
            _ => Trouble::Unclear(later(Failure::change(said))),
        })
    }

    fn sentence(&self) -> String {
        if self.status.is_redirection() {
            let place = self.location.as_deref().unwrap_or("another place");
            return format!(
                "answered {} and points to {place}: redirects are not followed, so name the final address in the configuration",
                self.status
            );
        }
        let text = String::from_utf8_lossy(&self.body);
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(QUOTED) {
            _ if line.is_empty() => format!("answered {}", self.status),
            Some((end, _)) => format!("answered {}: {}…", self.status, &line[..end]),
            None => format!("answered {}: {line}", self.status),
        }
    }
}

fn without_parameters(place: &str) -> String {
    place.split(['?', '#']).next().unwrap_or_default().chars().take(QUOTED).collect()
}

/// How long the answer asks to wait: seconds, or a date, which is compared with the answer's own date where it has one.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST_PAUSE));
    }
    let date = |text: &str| rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    let now = headers.get(DATE).and_then(|now| date(now.to_str().ok()?)).unwrap_or_else(clock::wall);
    let wait = date(text)?.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default().min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use seriatim::handler::FailureKind;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, pause: None, location: None, body: body.as_bytes().to_vec() }
    }

    fn kind(status: u16) -> FailureKind {
        answer(status, "").verdict().unwrap_err().into_failure().kind
    }

    #[test]
    fn each_status_has_its_meaning() {
        for done in [200, 201, 202, 204] {
            assert!(answer(done, "").verdict().is_ok());
        }
        for waits in [429, 503, 301, 302, 307, 308] {
            assert_eq!(kind(waits), FailureKind::Target, "{waits}");
        }
        for again in [408, 500, 502, 504, 599] {
            assert_eq!(kind(again), FailureKind::Change, "{again}");
        }
        for never in [400, 401, 404, 409, 410, 422] {
            assert_eq!(kind(never), FailureKind::Poison, "{never}");
        }
    }

    #[test]
    fn only_a_lost_answer_is_worth_the_same_again() {
        let unclear = |status| matches!(answer(status, "").verdict(), Err(Trouble::Unclear(_)));
        assert!(unclear(500) && unclear(408) && unclear(504));
        assert!(!unclear(400) && !unclear(429) && !unclear(302));
    }

    fn pause_of(retry_after: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        date.map(|date| headers.insert(DATE, date.parse().unwrap()));
        pause(&headers)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(pause_of("7", None), secs(7));
        assert_eq!(pause_of("99999999", None), Some(LONGEST_PAUSE));
        assert_eq!(pause_of("soon", None), None);
        assert_eq!(pause_of("-1", None), None);
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            pause_of("Sun, 06 Nov 1994 08:49:49 GMT", date),
            secs(12),
            "whatever this machine's clock says"
        );
        assert_eq!(pause_of("Sun, 06 Nov 1994 08:00:00 GMT", date), secs(0));
        assert_eq!(pause_of("Sun, 06 Nov 1994 08:00:00 GMT", None), secs(0));
    }

    #[test]
    fn a_sentence_repeats_a_little_of_the_body() {
        let said = answer(500, "no\n such  thing").verdict().unwrap_err().about("http://h/").into_failure();
        assert_eq!(said.to_string(), "http://h/ answered 500 Internal Server Error: no such thing");
        let said = answer(500, &"ü".repeat(1000)).verdict().unwrap_err().into_failure().to_string();
        assert!(said.chars().count() < 300, "{said}");
    }

    #[test]
    fn a_redirect_says_where_to_and_what_to_do() {
        let location = Some(without_parameters("https://b.example/in?token=secret"));
        let said = Answer { location, ..answer(302, "") }.sentence();
        assert!(
            said.contains("302 Found and points to https://b.example/in: redirects are not followed"),
            "{said}"
        );
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    proptest! {
        #[test]
        fn any_answer_means_something(
            status in 100u16..1000,
            body in prop::collection::vec(any::<u8>(), 0..300),
            after in r"[ -~]{0,30}|[0-9]{1,30}|Sun, [0-9]{1,2} Nov [0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            date in r"[ -~]{0,30}|Sun, [0-9]{1,2} Nov [0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        ) {
            let mut headers = HeaderMap::new();
            for (name, text) in [(RETRY_AFTER, after), (DATE, date)] {
                headers.extend(HeaderValue::from_str(&text).ok().map(|value| (Some(name), value)));
            }
            let pause = pause(&headers);
            prop_assert!(pause.is_none_or(|pause| pause <= LONGEST_PAUSE));
            let status = StatusCode::from_u16(status).expect("a status");
            if let Err(trouble) = (Answer { status, pause, location: None, body }).verdict() {
                prop_assert!(!trouble.into_failure().to_string().is_empty());
            }
        }
    }
}
