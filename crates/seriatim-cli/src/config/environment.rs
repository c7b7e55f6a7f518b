//! Settings by environment: `feed.totals.handler.batch` is `SERIATIM_FEED_TOTALS_HANDLER_BATCH`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;

use super::suggest::closest;
use crate::error::{Error, Result};

/// The variable that overrides the buffer of all window feeds.
const BUFFER: &str = "RECORD_CHANGE_WINDOW_BUFFER";

const PREFIX: &str = "SERIATIM_";

/// Variables that are no settings: the program itself reads them.
const OTHERS: [&str; 5] =
    ["SERIATIM_CONFIG", "SERIATIM_LOG", "SERIATIM_LOG_FORMAT", "SERIATIM_HOST", "SERIATIM_METRICS"];

/// The variables that begin with `SERIATIM_`, and which settings have been looked for among them.
///
/// An empty variable counts as not set.
#[derive(Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    /// The variables of window feeds, which have no prefix.
    plain: BTreeMap<String, String>,
    asked: RefCell<BTreeMap<String, String>>,
}

/// A setting that a variable gives.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    pub name: String,
    pub value: &'a str,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Environment::of(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))),
        )
    }

    /// These variables, as far as they are Seriatim's.
    pub fn of(variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        let ours = |(name, value): &(String, OsString)| name.starts_with(PREFIX) && !value.is_empty();
        let variables: Vec<(String, OsString)> = variables.into_iter().collect();
        let of_windows =
            variables.iter().filter(|(name, _)| name == BUFFER || name.ends_with("_EXCESSIVE_COUNT"));
        let plain =
            of_windows.map(|(name, value)| (name.clone(), value.to_string_lossy().into_owned())).collect();
        Environment {
            variables: variables.into_iter().filter(ours).collect(),
            plain,
            asked: RefCell::default(),
        }
    }

    /// The variable for this setting, if it is set. Fails when it could as well be meant for another setting.
    pub fn get(&self, path: &str) -> Result<Option<Variable<'_>>> {
        let name = variable_name(path);
        let before = self.asked.borrow_mut().insert(name.clone(), path.to_owned());
        let Some(value) = self.variables.get(&name) else {
            return Ok(None);
        };
        if let Some(other) = before.filter(|other| other != path) {
            return Err(Error::usage(format!("{name} could mean {other} or {path}"))
                .help("unset it, and write the setting into the config file"));
        }
        let value = value.to_str().ok_or_else(|| Error::usage(format!("{name} is not valid UTF-8")))?;
        Ok(Some(Variable { name, value }))
    }

    /// A variable of window feeds, which has no prefix.
    pub fn plain(&self, name: &str) -> Option<String> {
        self.plain.get(name).cloned()
    }

    /// A warning for each variable that belongs to no setting. Call it when every setting has been looked for.
    pub fn unknown(&self) -> Vec<String> {
        let asked = self.asked.borrow();
        let known = |name: &str| asked.contains_key(name) || OTHERS.contains(&name);
        let unknown = self.variables.keys().filter(|name| !known(name));
        let candidates = || asked.keys().map(String::as_str).chain(OTHERS);
        unknown.map(|name| warning(name, closest(name, candidates()))).collect()
    }
}

fn warning(name: &str, meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("{name} sets nothing; did you mean {meant}?"),
        None => format!("{name} sets nothing"),
    }
}

/// A path in capitals; whatever a variable's name cannot have in it becomes an underscore.
fn variable_name(path: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(path.chars().filter(|c| *c != '"').map(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::of(variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))))
    }

    #[test]
    fn every_setting_has_a_variable() {
        assert_eq!(variable_name("store"), "SERIATIM_STORE");
        assert_eq!(variable_name("feed.my-totals.handler.batch"), "SERIATIM_FEED_MY_TOTALS_HANDLER_BATCH");
        assert_eq!(variable_name(r#"feed."my totals".table"#), "SERIATIM_FEED_MY_TOTALS_TABLE");
    }

    #[test]
    fn a_variable_that_sets_nothing_is_told_what_was_meant() {
        let environment = environment(&[("SERIATIM_STOER", "x"), ("SERIATIM_LOG", "x"), ("HOME", "x")]);
        environment.get("store").unwrap();
        assert_eq!(environment.unknown(), ["SERIATIM_STOER sets nothing; did you mean SERIATIM_STORE?"]);
    }

    #[test]
    fn a_variable_with_two_meanings_is_refused() {
        let environment = environment(&[("SERIATIM_FEED_A_HANDLER_BATCH", "1")]);
        assert!(environment.get("feed.a.handler.batch").unwrap().is_some());
        let said = environment.get("feed.a_handler.batch").unwrap_err().sentence();
        assert!(said.contains("could mean feed.a.handler.batch or feed.a_handler.batch"), "{said}");
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(environment(&[("SERIATIM_STORE", "")]).get("store").unwrap(), None);
    }
}
