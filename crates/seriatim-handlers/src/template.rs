//! Texts with columns in them, such as `orders.{id}`. Pure.

use std::fmt;

use seriatim::Change;
use seriatim::value::Value;
use thiserror::Error;

/// A text in which `{column}` stands for the value of a column. `{{` and `}}` are braces.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Column(String),
}

/// Why a text is no template.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadTemplate {
    /// A brace has no partner.
    #[error("has a brace without its partner: write {{column}}, or {{{{ and }}}} for braces themselves")]
    Brace,
    /// There is no name between the braces.
    #[error("names no column between its braces")]
    NoColumn,
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(place) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(place);
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = brace.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let inside = brace.strip_prefix('{').ok_or(BadTemplate::Brace)?;
                let (column, after) = inside.split_once('}').ok_or(BadTemplate::Brace)?;
                if column.is_empty() || column.contains('{') {
                    return Err(BadTemplate::NoColumn);
                }
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Column(column.to_owned()));
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        if pieces.is_empty() {
            Err(BadTemplate::Empty)
        } else {
            Ok(Template { text: text.to_owned(), pieces })
        }
    }

    /// The columns that it names.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Column(column) => Some(column.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text for a change, with each value written by `escape`. Columns are those of the key, then of the row after, then of the
    /// row before. `None` where one is in none of them.
    pub fn render(&self, change: &Change, escape: impl Fn(&str) -> String) -> Option<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Column(column) => value(change, column).map(|value| escape(&shown(value))),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// The text with each column replaced by this.
    pub fn with_each(&self, replacement: &str) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Column(_) => replacement.to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }
}

fn value<'a>(change: &'a Change, column: &str) -> Option<&'a Value> {
    let rows = [change.key.as_ref().map(|key| key.row()), change.after.as_ref(), change.before.as_ref()];
    rows.into_iter().flatten().find_map(|row| row.get(column))
}

fn shown(value: &Value) -> String {
    match value.to_json() {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim::change::{Op, Position};
    use seriatim::value::{Columns, Key, Row};
    use seriatim::{FeedName, Partition};

    use super::*;

    fn change() -> Change {
        Change {
            feed: FeedName::new("f").unwrap(),
            partition: Partition(0),
            position: Position::number(1),
            key: Some(Key::of("id", Value::Integer(7))),
            op: Op::Delete,
            at: jiff::Timestamp::UNIX_EPOCH,
            before: Some(Row::new(
                Columns::new(["id", "region"]),
                [Value::Integer(7), Value::Text("e.u".into())],
            )),
            after: None,
            id: 1,
            prev: None,
        }
    }

    fn rendered(text: &str) -> Option<String> {
        Template::parse(text).unwrap().render(&change(), |value| value.replace('.', "_"))
    }

    #[test]
    fn columns_are_those_of_the_key_and_the_row() {
        assert_eq!(rendered("orders.{region}.{id}").as_deref(), Some("orders.e_u.7"));
        assert_eq!(rendered("{{{id}}}").as_deref(), Some("{7}"));
        assert_eq!(rendered("{colour}"), None);
        assert_eq!(Template::parse("a.{b}.{c}").unwrap().with_each("*"), "a.*.*");
    }

    #[test]
    fn what_is_no_template_is_told_why() {
        assert_eq!(Template::parse("a{b"), Err(BadTemplate::Brace));
        assert_eq!(Template::parse("a}b"), Err(BadTemplate::Brace));
        assert_eq!(Template::parse("a{}b"), Err(BadTemplate::NoColumn));
        assert_eq!(Template::parse(""), Err(BadTemplate::Empty));
    }

    proptest! {
        #[test]
        fn any_text_is_a_template_or_refused_and_nothing_worse(text in r"[a-z{}.é]{0,12}") {
            if let Ok(template) = Template::parse(&text) {
                template.render(&change(), str::to_owned);
                prop_assert_eq!(template.to_string(), text);
            }
        }
    }
}
