//! Filters: which rows of a table a feed is about.
//!
//! A filter is an expression in the source's own SQL, written by an operator. It ends up inside parentheses in statements of ours, so
//! it must not be able to leave them: it is taken apart here, as far as strings, names and parentheses go, and refused when it is
//! more than one expression. What the words in it mean is for the source to say.

use std::fmt;

/// Whose SQL it is: they quote differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
}

/// An expression on the columns of a row that stays inside whatever parentheses it is put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    words: Vec<Word>,
}

/// A name, keyword or number in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
    /// A parenthesis follows.
    called: bool,
    /// Only blanks are between the word before and this one.
    follows: bool,
}

/// Why a text is no filter, in words that follow "the filter".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoFilter(String);

impl fmt::Display for NoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoFilter {}

/// Words that begin a query: a filter is about one row alone.
const QUERIES: [&str; 5] = ["select", "with", "values", "table", "exists"];

impl Filter {
    /// Takes the text of a filter, or says why it is none.
    pub fn new(text: &str, dialect: Dialect) -> Result<Self, NoFilter> {
        let text = text.trim();
        if text.is_empty() {
            return Err(NoFilter("is empty".to_owned()));
        }
        let mut lexer = Lexer { rest: text, dialect, depth: Vec::new(), words: Vec::new(), follows: false };
        while lexer.step()? {}
        if !lexer.depth.is_empty() {
            return Err(NoFilter("opens a parenthesis that it does not close".to_owned()));
        }
        let words = without_time_zones(lexer.words);
        let query = |word: &&Word| !word.quoted && QUERIES.contains(&word.text.to_lowercase().as_str());
        match words.iter().find(query) {
            Some(word) => Err(NoFilter(format!(
                "has a query in it ({}), and can only ask about the row's own columns",
                word.text
            ))),
            None => Ok(Filter { text: text.to_owned(), words }),
        }
    }

    /// The expression. Put it in parentheses.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it may be about a column of this name. It is not about those for which this is false.
    pub fn mentions(&self, column: &str) -> bool {
        let column = column.to_lowercase();
        self.words.iter().any(|word| word.text.to_lowercase() == column)
    }

    /// The names in double quotes: in SQLite one that is no column would be taken for a text.
    pub fn quoted_names(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter(|word| word.quoted).map(|word| word.text.as_str())
    }

    /// The names that a parenthesis follows: functions, and some keywords.
    pub fn called_names(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter(|word| word.called).map(|word| word.text.as_str())
    }
}

/// The words without those of `at time zone` and `at local`, which name nothing: a table may well have a column of such a name.
fn without_time_zones(mut words: Vec<Word>) -> Vec<Word> {
    const OPERATORS: [&[&str]; 2] = [&["at", "time", "zone"], &["at", "local"]];
    let mut at = 0;
    while at < words.len() {
        match OPERATORS.iter().find(|operator| begins_with(&words[at..], operator)) {
            Some(operator) => drop(words.drain(at..at + operator.len())),
            None => at += 1,
        }
    }
    words
}

fn begins_with(words: &[Word], keywords: &[&str]) -> bool {
    let is = |(word, keyword): (&Word, &&str)| !word.quoted && word.text.eq_ignore_ascii_case(keyword);
    words.get(..keywords.len()).is_some_and(|these| {
        these.iter().zip(keywords).all(is) && these.iter().skip(1).all(|word| word.follows)
    })
}

struct Lexer<'a> {
    rest: &'a str,
    dialect: Dialect,
    /// What closes the parentheses and brackets that are open.
    depth: Vec<char>,
    words: Vec<Word>,
    /// The last piece was a word.
    follows: bool,
}

impl Lexer<'_> {
    /// Takes the next piece off. Says whether there was one.
    fn step(&mut self) -> Result<bool, NoFilter> {
        let Some(first) = self.rest.chars().next() else { return Ok(false) };
        if self.rest.starts_with("--") || self.rest.starts_with("/*") {
            return Err(NoFilter("has a comment in it".to_owned()));
        }
        let words = self.words.len();
        self.piece(first)?;
        self.follows = self.words.len() > words || self.follows && first.is_whitespace();
        Ok(true)
    }

    fn piece(&mut self, first: char) -> Result<(), NoFilter> {
        match first {
            '\'' => self.text().map(drop)?,
            '"' => {
                let text = self.quoted('"')?;
                self.word(text, true);
            }
            '(' => self.opened(')'),
            '[' if self.dialect == Dialect::Postgres => self.opened(']'),
            ')' | ']' => self.closed(first)?,
            ';' => return Err(NoFilter("has a semicolon in it, and must be one expression".to_owned())),
            '`' | '[' => {
                return Err(NoFilter(format!("has a name in {first}: put it in double quotes instead")));
            }
            '$' | '\0' => {
                return Err(NoFilter(format!("has a {first:?} in it, which it may have in quotes alone")));
            }
            _ if first.is_alphanumeric() || first == '_' => self.bare()?,
            _ => self.skip(first.len_utf8()),
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn opened(&mut self, closes: char) {
        self.depth.push(closes);
        self.skip(1);
    }

    fn closed(&mut self, by: char) -> Result<(), NoFilter> {
        self.skip(1);
        match self.depth.pop() {
            Some(closes) if closes == by => Ok(()),
            _ => Err(NoFilter(format!("has a {by:?} that closes nothing"))),
        }
    }

    /// A text in single quotes.
    fn text(&mut self) -> Result<(), NoFilter> {
        let text = self.quoted('\'')?;
        // Whether a backslash ends the text with the quote behind it depends on the server's settings.
        if self.dialect == Dialect::Postgres && (text.ends_with('\\') || text.contains("\\'")) {
            return Err(NoFilter("has a backslash before a quote".to_owned()));
        }
        Ok(())
    }

    /// What stands between two of these quotes, a doubled one being one of them.
    fn quoted(&mut self, quote: char) -> Result<String, NoFilter> {
        self.skip(1);
        let mut found = String::new();
        loop {
            let Some(end) = self.rest.find(quote) else {
                return Err(NoFilter(format!("opens a quote ({quote}) that it does not close")));
            };
            found.push_str(&self.rest[..end]);
            self.skip(end + 1);
            if !self.rest.starts_with(quote) {
                return if found.contains('\0') {
                    Err(NoFilter("has a NUL in it".to_owned()))
                } else {
                    Ok(found)
                };
            }
            found.push(quote);
            self.skip(1);
        }
    }

    /// A name, keyword or number.
    fn bare(&mut self) -> Result<(), NoFilter> {
        let end = self.rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let text = self.rest[..end.unwrap_or(self.rest.len())].to_owned();
        self.skip(text.len());
        let escapes = text.eq_ignore_ascii_case("e") && self.rest.starts_with('\'')
            || text.eq_ignore_ascii_case("u")
                && (self.rest.starts_with("&'") || self.rest.starts_with("&\""));
        if escapes {
            return Err(NoFilter(format!("has a text with escapes ({text}…): write it without")));
        }
        self.word(text, false);
        Ok(())
    }

    fn word(&mut self, text: String, quoted: bool) {
        let called = self.rest.trim_start().starts_with('(');
        self.words.push(Word { text, quoted, called, follows: self.follows });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [Dialect; 2] = [Dialect::Sqlite, Dialect::Postgres];

    #[test]
    fn an_expression_on_columns_is_a_filter() {
        let expressions = [
            "amount > 10",
            " status in ('paid', 'sent') and (amount > 10 or customer is not null) ",
            "note = 'it''s ) fine -- here; /* and */ $here'",
            "\"odd \"\"name)\" = 1",
            "lower(customer) like '%ada%'",
        ];
        for text in expressions {
            for dialect in BOTH {
                assert_eq!(
                    Filter::new(text, dialect).map(|filter| filter.as_str().to_owned()),
                    Ok(text.trim().to_owned())
                );
            }
        }
        assert!(Filter::new("tags[1] = 'a'", Dialect::Postgres).is_ok());
    }

    #[test]
    fn what_could_leave_its_parentheses_is_none() {
        let texts = [
            "",
            "  ",
            "1) or (1",
            "1)",
            "(1",
            "a; drop table t",
            "a -- comment",
            "a /* comment",
            "'open",
            "\"open",
            "a = 'x'' ",
            "`a` = 1",
            "$1",
            "$$ ) $$",
            "e'\\' ) or ('",
            "E'x'",
            "U&\"x\" = 1",
            "a = '\0'",
            "a \0",
            "id in (select 1)",
            "EXISTS (values (1))",
        ];
        for text in texts {
            for dialect in BOTH {
                assert!(Filter::new(text, dialect).is_err(), "{text} on {dialect:?}");
            }
        }
        assert!(
            Filter::new("[a'] ) or ( [b']", Dialect::Sqlite).is_err(),
            "a name in brackets may hide a quote"
        );
        assert!(Filter::new("(a]", Dialect::Postgres).is_err());
        assert!(Filter::new("a = '\\' ) or (b = '", Dialect::Postgres).is_err(), "a backslash may escape");
        assert!(Filter::new("a like '%\\%%' escape '\\'", Dialect::Sqlite).is_ok());
    }

    #[test]
    fn the_columns_and_functions_that_it_has_are_known() {
        let filter = Filter::new("lower(Customer) = 'amount' and \"Odd\" > 1e3", Dialect::Sqlite).unwrap();
        assert!(filter.mentions("customer") && filter.mentions("odd"));
        assert!(!filter.mentions("amount"), "a text is no column");
        assert_eq!(filter.quoted_names().collect::<Vec<_>>(), ["Odd"]);
        assert_eq!(filter.called_names().collect::<Vec<_>>(), ["lower"]);
    }

    #[test]
    fn the_words_of_a_time_zone_are_no_columns() {
        let filter = |text: &str| Filter::new(text, Dialect::Postgres).unwrap();
        for text in [
            "seen at time zone 'UTC' > '2026-01-01'",
            "(seen) AT\n TIME  ZONE zone_of > now()",
            "'2026-01-01' at time zone 'UTC' > seen",
            "seen at local > '2026-01-01'",
        ] {
            let filter = filter(text);
            assert!(
                filter.mentions("seen") && !["at", "time", "zone"].iter().any(|name| filter.mentions(name)),
                "{text}"
            );
        }
        assert!(filter("at at time zone 'UTC' > '2026-01-01'").mentions("at"), "the first one is a column");
        for text in ["at = time", "b > at + time - zone", "a and at > time and zone", "\"at\" > 1"] {
            assert!(filter(text).mentions("at"), "{text}");
        }
    }

    proptest! {
        /// What a naive reader of quotes and parentheses sees between ours never closes them.
        #[test]
        fn no_filter_closes_a_parenthesis_that_it_did_not_open(text in "[ab'\"()\\[\\];$/*\\\\-]{0,24}") {
            for dialect in BOTH {
                if Filter::new(&text, dialect).is_ok() {
                    let (mut depth, mut quote) = (0i32, None);
                    for letter in text.chars() {
                        match (quote, letter) {
                            (Some(open), letter) if open == letter => quote = None,
                            (Some(_), _) => {}
                            (None, '\'' | '"') => quote = Some(letter),
                            (None, '(') => depth += 1,
                            (None, ')') => depth -= 1,
                            (None, _) => {}
                        }
                        prop_assert!(depth >= 0, "{text}");
                    }
                    prop_assert!(depth == 0 && quote.is_none(), "{text}");
                }
            }
        }
    }
}
