//! `seriatim serve`: the JSON API and the page, whether hosts run or not.

pub mod panel;

use std::net::SocketAddr;

use ring::rand::{SecureRandom as _, SystemRandom};
use seriatim_dashboard::Dashboard;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::args::{Serve, Shown};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::{output, unix_signals};
use panel::ConfigPanel;

/// Whoever has it may act. Another form has several, each with a name: `SERIATIM_TOKENS=alice:SECRET,bob:SECRET`.
const TOKEN: &str = "SERIATIM_TOKEN";
const TOKENS: &str = "SERIATIM_TOKENS";

/// The name under which actions are kept that were done with a token that has none.
const NAMELESS: &str = "operator";

/// Runs the command.
pub async fn execute(config: &Config, arguments: &Serve) -> Result<()> {
    let shutdown = unix_signals::shutdown()?;
    let serving = Serving::start(config, arguments.listen, &arguments.shown).await?;
    output::line(&serving.address)?;
    if let Some(token) = &serving.token {
        output::line(format_args!("token: {token}"))?;
    }
    shutdown.await;
    Ok(())
}

/// The page, as long as this lives.
pub struct Serving {
    task: JoinHandle<()>,
    /// Where it is.
    pub address: String,
    /// The token that was made up, where none was given: whoever starts it is told, once.
    pub token: Option<String>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Serving {
    /// Serves the page of this config.
    pub async fn start(config: &Config, address: SocketAddr, shown: &Shown) -> Result<Self> {
        let given = tokens(&|name| std::env::var(name).ok())?;
        refuse_open(address, given.is_empty())?;
        let mut dashboard = Dashboard::new(ConfigPanel::new(config))
            .base_path(&shown.base_path)
            .read_only(shown.read_only)
            .hide_payloads(shown.hide_payloads)
            .open_reads(address.ip().is_loopback())
            .hosts(hosts(address, &shown.names));
        for (name, token) in &given {
            dashboard = dashboard.token(name, token);
        }
        let token = (given.is_empty() && !shown.read_only).then(random_token).transpose()?;
        if let Some(token) = &token {
            dashboard = dashboard.token(NAMELESS, token);
        }
        let cannot = |error: std::io::Error| {
            Error::failed(format!("nothing can be served at {address}: {error}"))
                .help("give another address or port; port 0 takes any that is free")
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        let base = shown.base_path.trim_matches('/');
        let slash = if base.is_empty() { "" } else { "/" };
        let task = tokio::spawn(seriatim_dashboard::serve(listener, dashboard.router()));
        Ok(Serving { task, address: format!("http://{bound}/{base}{slash}"), token })
    }
}

/// An address that others can reach needs a token that they know: one that is made up here would be known to whoever reads the log.
fn refuse_open(address: SocketAddr, no_token: bool) -> Result<()> {
    if address.ip().is_loopback() || !no_token {
        return Ok(());
    }
    Err(Error::usage(format!("{address} can be reached from other machines, and there is no token"))
        .help(format!("set {TOKEN} to a long random text, or listen on 127.0.0.1")))
}

/// Requests on loopback must name this machine: no other name is bent to it.
fn hosts(address: SocketAddr, names: &[String]) -> Vec<String> {
    match address.ip().is_loopback() {
        true => {
            let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter();
            own.chain([address.ip().to_string()]).chain(names.iter().cloned()).collect()
        }
        false => names.to_vec(),
    }
}

/// The tokens with their names.
fn tokens(environment: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    if let Some(token) = environment(TOKEN).filter(|token| !token.is_empty()) {
        all.push((NAMELESS.to_owned(), checked(TOKEN, &token)?));
    }
    for pair in
        environment(TOKENS).iter().flat_map(|tokens| tokens.split(',')).filter(|pair| !pair.trim().is_empty())
    {
        let (name, token) = pair.trim().split_once(':').ok_or_else(|| {
            Error::usage(format!("{TOKENS}: one of the tokens has no name"))
                .help("write names and tokens as alice:SECRET,bob:SECRET")
        })?;
        all.push((name.trim().to_owned(), checked(TOKENS, token)?));
    }
    Ok(all)
}

/// A token that can be in a header and in a cookie.
fn checked(variable: &str, token: &str) -> Result<String> {
    let token = token.trim();
    let fits = |byte: u8| byte.is_ascii_graphic() && !b";,\"\\".contains(&byte);
    match !token.is_empty() && token.bytes().all(fits) {
        true => Ok(token.to_owned()),
        false => Err(Error::usage(format!("{variable}: a token has characters that no cookie can have"))
            .help("use letters, digits and -._~+/=")),
    }
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 24];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::failed("the system gives no random bytes for a token"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(token: &str, named: &str) -> Result<Vec<(String, String)>> {
        let (token, named) = (token.to_owned(), named.to_owned());
        tokens(&move |name| Some(if name == TOKEN { token.clone() } else { named.clone() }))
    }

    #[test]
    fn tokens_have_names() {
        let expected = [("operator", "abc=="), ("alice", "x:y"), ("bob", "z")];
        let given = of("abc==", " alice:x:y, bob:z,").unwrap();
        assert_eq!(given, expected.map(|(name, token)| (name.to_owned(), token.to_owned())));
        assert_eq!(of("", "").unwrap(), []);
        assert!(of("a b", "").is_err() && of("", "alone").is_err() && of("", "bob:").is_err());
    }

    #[test]
    fn whatever_others_can_reach_needs_a_token() {
        let loopback = "127.0.0.1:9465".parse().unwrap();
        let open = "0.0.0.0:9465".parse().unwrap();
        assert!(refuse_open(loopback, true).is_ok() && refuse_open(open, false).is_ok());
        assert_eq!(refuse_open(open, true).unwrap_err().exit().code(), 2);
    }

    #[test]
    fn two_tokens_are_never_the_same() {
        assert_ne!(random_token().unwrap(), random_token().unwrap());
    }
}
