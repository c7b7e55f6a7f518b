//! Reads settings one by one from the TOML text and the environment, and names each precisely when it is wrong.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::duration::duration;
use super::environment::Environment;
use super::suggest::instead_of;
use super::url::quoted;
use crate::error::{Error, Result};

/// What all sections are read from.
#[derive(Debug)]
pub struct Document<'a> {
    /// The config file, as the user named it.
    pub file: &'a Path,
    /// What is in it.
    pub text: &'a str,
    /// The variables that override it.
    pub environment: &'a Environment,
}

impl Document<'_> {
    /// Parses the text, or says on which line it is no TOML. The line itself is not shown: it may hold a password.
    pub fn parse(&self) -> Result<DeTable<'_>> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let line = error.span().map_or(String::new(), |span| format!(":{}", self.line(span.start)));
            Error::usage(format!("{}{line}: this is no valid TOML: {}", self.file.display(), error.message()))
        })
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
    }
}

/// The keys that a section may have.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Those of this version.
    pub here: &'static [&'static str],
    /// Those of later versions: known, so that they can be refused with a sentence of their own.
    pub later: &'static [&'static str],
    /// Those of sections below this one, by the section's name: people often write them one level too high.
    pub below: &'static [(&'static str, &'static [&'static str])],
}

impl Keys {
    /// Keys of this version only.
    pub const fn of(here: &'static [&'static str]) -> Self {
        Keys { here, later: &[], below: &[] }
    }

    fn contains(&self, key: &str) -> bool {
        self.here.contains(&key) || self.later.contains(&key)
    }
}

/// One table of the document. A table that is not in the file can still have settings, by environment.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    document: &'a Document<'a>,
    table: Option<&'a DeTable<'a>>,
    path: String,
}

impl<'a> Section<'a> {
    /// The whole document. Fails on a key that is not `known`.
    pub fn root(document: &'a Document<'a>, table: &'a DeTable<'a>, known: Keys) -> Result<Self> {
        let root = Section { document, table: Some(table), path: String::new() };
        root.refuse_unknown(known)?;
        Ok(root)
    }

    /// The whole document, whatever keys it has.
    pub fn unchecked(document: &'a Document<'a>, table: &'a DeTable<'a>) -> Self {
        Section { document, table: Some(table), path: String::new() }
    }

    /// The section of this name in this one, whatever keys it has; an empty one where it is none.
    pub fn below(&self, name: &str) -> Self {
        let empty = Section { document: self.document, table: None, path: self.path_of(name) };
        self.open(name).unwrap_or(empty)
    }

    /// The named sections under this one, whatever keys they have.
    pub fn all(&self, name: &str) -> Vec<(String, Self)> {
        let group = self.below(name);
        let names = group.table.into_iter().flat_map(DeTable::keys);
        names.map(|name| (name.get_ref().to_string(), group.below(name.get_ref()))).collect()
    }

    /// An error for each of its keys that is not `known`.
    pub fn unknown(&self, known: Keys) -> Vec<Error> {
        let keys = self.table.into_iter().flat_map(DeTable::keys);
        let unknown = keys.filter(|key| !known.contains(key.get_ref()));
        let error = |key: &Spanned<std::borrow::Cow<'a, str>>| {
            let what = format!("unknown key {}", self.path_of(key.get_ref()));
            let error = Error::usage(format!("{}: {what}", self.place(key.span().start)));
            error.help(self.place_for(key.get_ref(), known))
        };
        unknown.map(error).collect()
    }

    /// The section of this name in this one. Fails on a key in it that is not `known`.
    pub fn section(&self, name: &str, known: Keys) -> Result<Self> {
        let section = self.open(name)?;
        section.refuse_unknown(known)?;
        Ok(section)
    }

    /// The named sections under this one: `[feed.a]` and `[feed.b]` are `a` and `b` under `feed`.
    pub fn named(&self, name: &str, known: Keys) -> Result<Vec<(String, Self)>> {
        let group = self.open(name)?;
        let names = group.table.into_iter().flat_map(DeTable::keys);
        names.map(|name| Ok((name.get_ref().to_string(), group.section(name.get_ref(), known)?))).collect()
    }

    /// Whether there is a section of this name in this one.
    pub fn is_section(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    /// The settings of a section in which any key may be.
    pub fn texts(&self, name: &str) -> Result<Vec<(String, Setting<'a>)>> {
        let section = self.open(name)?;
        let entries = section.table.into_iter().flat_map(DeTable::iter);
        let setting = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key: &std::borrow::Cow<'a, str> = key.get_ref();
            let place = format!("{}: {}", section.place(value.span().start), section.path_of(key));
            (key.to_string(), Setting { place, given: Given::File(value.get_ref()) })
        };
        Ok(entries.map(setting).collect())
    }

    /// Whether the section stands in the file.
    pub fn is_in_file(&self) -> bool {
        self.table.is_some()
    }

    /// The section's own path, such as `feed.totals`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The setting of this key, from the environment or else from the file.
    pub fn get(&self, key: &str) -> Result<Option<Setting<'a>>> {
        let path = self.path_of(key);
        if let Some(variable) = self.document.environment.get(&path)? {
            let place = format!("{path} (set by {})", variable.name);
            return Ok(Some(Setting { place, given: Given::Variable(variable.value) }));
        }
        let entry = self.table.and_then(|table| table.get_key_value(key));
        Ok(entry.map(|(name, value)| {
            let place = format!("{}: {path}", self.place(name.span().start));
            Setting { place, given: Given::File(value.get_ref()) }
        }))
    }

    /// The setting of this key, which must be there.
    pub fn require(&self, key: &str, help: &str) -> Result<Setting<'a>> {
        self.get(key)?.ok_or_else(|| self.wrong(format!("{} is missing", self.path_of(key))).help(help))
    }

    /// An error about this section as a whole.
    pub fn wrong(&self, what: String) -> Error {
        Error::usage(format!("{}: {what}", self.document.file.display()))
    }

    fn open(&self, name: &str) -> Result<Self> {
        let path = self.path_of(name);
        let Some((key, value)) = self.table.and_then(|table| table.get_key_value(name)) else {
            return Ok(Section { document: self.document, table: None, path });
        };
        let table = value.get_ref().as_table().ok_or_else(|| {
            let found = kind(value.get_ref());
            Error::usage(format!("{}: {path} must be a section, not {found}", self.place(key.span().start)))
                .help(format!("begin it with a line [{path}]"))
        })?;
        Ok(Section { document: self.document, table: Some(table), path })
    }

    fn refuse_unknown(&self, known: Keys) -> Result<()> {
        self.unknown(known).into_iter().next().map_or(Ok(()), Err)
    }

    /// Where an unknown key belongs, or what was meant by it.
    fn place_for(&self, key: &str, known: Keys) -> String {
        match known.below.iter().find(|(_, keys)| keys.contains(&key)) {
            Some((section, _)) => format!("it belongs in the section [{}]", self.path_of(section)),
            None => instead_of(key, known.here),
        }
    }

    fn path_of(&self, key: &str) -> String {
        let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let key = if bare { key.to_owned() } else { format!("{key:?}") };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.document.file.display(), self.document.line(offset))
    }
}

/// One setting that somebody gave, in the file or by environment.
#[derive(Debug)]
pub struct Setting<'a> {
    place: String,
    given: Given<'a>,
}

#[derive(Debug)]
enum Given<'a> {
    File(&'a DeValue<'a>),
    Variable(&'a str),
}

impl Setting<'_> {
    /// An error that names the setting: `must be …`, `has …`.
    pub fn wrong(&self, what: impl Display) -> Error {
        Error::usage(format!("{} {what}", self.place))
    }

    /// The setting as text.
    pub fn text(&self) -> Result<&str> {
        match &self.given {
            Given::Variable(text) => Ok(text),
            Given::File(value) => value.as_str().ok_or_else(|| self.wrong_kind("a text")),
        }
    }

    /// The setting as text that is not empty.
    pub fn word(&self) -> Result<&str> {
        match self.text()?.trim() {
            "" => Err(self.wrong("must not be empty")),
            _ => self.text(),
        }
    }

    /// The setting as text, or a TOML time as its text.
    pub fn text_or_time(&self) -> Result<String> {
        match &self.given {
            Given::File(DeValue::Datetime(time)) => Ok(time.to_string()),
            _ => self.text().map(str::to_owned),
        }
    }

    /// The setting as one of these words, each with what it means.
    pub fn one_of<T: Clone>(&self, choices: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        chosen.map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(format_args!("cannot be {}", quoted(text))).help(instead_of(text, &words))
        })
    }

    /// The setting as a whole number from 1 to `most`.
    pub fn count(&self, most: u32) -> Result<u32> {
        let digits = match &self.given {
            Given::Variable(text) => whole(text.trim(), 10),
            Given::File(DeValue::Integer(number)) => whole(number.as_str(), number.radix()),
            Given::File(_) => return Err(self.wrong_kind("a whole number")),
        };
        match digits {
            Ok(number) if (1..=i128::from(most)).contains(&number) => Ok(number as u32),
            Ok(number) => Err(self.wrong(format_args!("must be from 1 to {most}, not {number}"))),
            Err(text) => {
                Err(self
                    .wrong(format_args!("must be a whole number from 1 to {most}, not {}", quoted(&text))))
            }
        }
    }

    /// The setting as `true` or `false`.
    pub fn truth(&self) -> Result<bool> {
        match &self.given {
            Given::Variable(text) => bool::from_str(text.trim()),
            Given::File(DeValue::Boolean(truth)) => Ok(*truth),
            Given::File(_) => return Err(self.wrong_kind("true or false")),
        }
        .map_err(|_| self.wrong("must be true or false"))
    }

    /// The setting as a list of texts; in a variable, commas part them.
    pub fn texts(&self) -> Result<Vec<String>> {
        let not_texts = || self.wrong_kind("a list of texts");
        match &self.given {
            Given::Variable(text) => Ok(text.split(',').map(|part| part.trim().to_owned()).collect()),
            Given::File(value) => {
                let list = value.as_array().ok_or_else(not_texts)?;
                let text = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
                list.iter().map(|item| text(item).ok_or_else(not_texts)).collect()
            }
        }
    }

    /// The setting as one text or as a list of texts, none of which is empty.
    pub fn words(&self) -> Result<Vec<String>> {
        let words = match &self.given {
            Given::File(DeValue::Array(_)) => self.texts()?,
            _ => vec![self.word()?.to_owned()],
        };
        match words.is_empty() || words.iter().any(|word| word.trim().is_empty()) {
            true => Err(self.wrong("must not be empty")),
            false => Ok(words),
        }
    }

    /// The setting as a duration longer than zero.
    pub fn duration(&self) -> Result<Duration> {
        duration(self.text()?).map_err(|what| self.wrong(what))
    }

    fn wrong_kind(&self, wanted: &str) -> Error {
        match &self.given {
            Given::File(value) => self.wrong(format_args!("must be {wanted}, not {}", kind(value))),
            Given::Variable(_) => self.wrong(format_args!("must be {wanted}")),
        }
    }
}

fn whole(digits: &str, radix: u32) -> Result<i128, String> {
    i128::from_str_radix(digits, radix).map_err(|_| digits.to_owned())
}

/// What a value is, in the words of these messages.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(list) if list.iter().any(|item| !item.get_ref().is_str()) => "a list of other things",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}
