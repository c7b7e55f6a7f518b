//! Who is let in: the host that was meant, the page that asks, the token.
//!
//! Reading on loopback needs nothing. A page of another site must not read or act through a visitor's browser: requests name the host
//! that they mean, browsers say which site a request comes from, and actions need a token.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::api::refused;
use crate::{Desk, Settings};

/// The cookie that the page keeps a token in. No script can read it, and no other site can send it.
pub const COOKIE_NAME: &str = "seriatim_token";

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// By the name of the token; `None` without one.
    pub name: Option<String>,
}

/// Lets a request through, or says why not; and has every answer say what a browser may do with it.
pub async fn guard(State(desk): State<Desk>, mut request: Request, next: Next) -> Response {
    let settings = &desk.settings;
    let caller = Caller { name: caller(settings, request.headers()) };
    let why_not = misdirected(settings, request.headers())
        .or_else(|| foreign(request.headers(), request.method()))
        .or_else(|| not_permitted(settings, &request, &caller));
    let mut response = match why_not {
        Some(refusal) => refusal,
        None => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
    };
    secure(response.headers_mut());
    response
}

fn caller(settings: &Settings, headers: &HeaderMap) -> Option<String> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let token = bearer.or_else(|| cookie(headers))?;
    settings.tokens.name_of(token.trim()).map(str::to_owned)
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
}

/// A name of this machine that the request does not mean: somebody has bent a name of theirs to this address.
fn misdirected(settings: &Settings, headers: &HeaderMap) -> Option<Response> {
    if settings.hosts.is_empty() {
        return None;
    }
    let named = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = without_port(named);
    let known = settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    (!known).then(|| {
        refused(
            StatusCode::MISDIRECTED_REQUEST,
            &format!("this is not {name:?}"),
            Some("name it as it was started, or give the name with --host"),
        )
    })
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A browser says which site asks. Another site may link here, and no more.
fn foreign(headers: &HeaderMap, method: &Method) -> Option<Response> {
    let site = headers.get("sec-fetch-site")?.to_str().unwrap_or("cross-site");
    let link = *method == Method::GET
        && headers.get("sec-fetch-mode").is_some_and(|mode| mode == HeaderValue::from_static("navigate"));
    (!matches!(site, "same-origin" | "none") && !link)
        .then(|| refused(StatusCode::FORBIDDEN, "a page of another site asks for this", None))
}

fn not_permitted(settings: &Settings, request: &Request, caller: &Caller) -> Option<Response> {
    let path = request.uri().path().strip_prefix(&*settings.base_path).unwrap_or_default();
    let (reads, signs_in) = (matches!(*request.method(), Method::GET | Method::HEAD), path == "/login");
    let open = settings.reads_are_open || path.starts_with("/assets/");
    if signs_in || (reads && (open || caller.name.is_some())) {
        return None;
    }
    if !reads && settings.read_only {
        return Some(refused(
            StatusCode::FORBIDDEN,
            "this page only shows: it was started with --read-only",
            None,
        ));
    }
    if caller.name.is_some() {
        return None;
    }
    if reads && !path.starts_with("/api/") {
        let login = format!("{}/login", settings.base_path);
        return Some((StatusCode::SEE_OTHER, [(header::LOCATION, login)]).into_response());
    }
    let mut response = refused(
        StatusCode::UNAUTHORIZED,
        "this needs a token",
        Some(
            "send it as `Authorization: Bearer TOKEN`: that of SERIATIM_TOKEN, or the one printed at the start",
        ),
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(response)
}

fn secure(headers: &mut HeaderMap) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                  form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let all = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_meant_with_and_without_its_port() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("127.0.0.1:9465", "127.0.0.1"),
            ("[::1]:9465", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn a_token_is_found_among_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("a=b; seriatim_token=x=y; c=d"));
        assert_eq!(cookie(&headers), Some("x=y"));
    }
}
