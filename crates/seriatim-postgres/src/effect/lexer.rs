//! Where one statement ends and the next begins, and where its parameters are.
//!
//! Knows what may hide a semicolon or a colon from PostgreSQL: strings (also with backslashes), quoted names, dollar quotes,
//! comments within comments. `::` is a cast, `:=` an argument's name, `[1:2]` a slice; `:word` is a parameter.

use tokio_postgres::types::Type;

/// One statement, as PostgreSQL is to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// With `$1`, `$2`, … for parameters.
    pub(super) text: String,
    /// The parameters' names, with their colons, in the order of their numbers.
    pub(super) parameters: Vec<String>,
    /// The types of the first parameters, where they are settled. PostgreSQL finds the others from where they stand.
    pub(super) types: Vec<Type>,
    /// Its first word, in lower case.
    first_word: String,
}

impl Statement {
    /// BEGIN, COMMIT and their like.
    pub(super) fn is_about_transactions(&self) -> bool {
        ["begin", "start", "commit", "end", "rollback", "abort"].contains(&self.first_word.as_str())
            || self.first_word == "prepare" && self.text.to_ascii_lowercase().contains("transaction")
    }
}

/// The statements of a text. A parameter that is a number (`$1`) is kept as its own name, which no change has.
pub(super) fn statements(sql: &str) -> Vec<Statement> {
    let mut lexer = Lexer { rest: sql, done: Vec::new(), current: Building::default() };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.end_statement();
    lexer.done
}

#[derive(Default)]
struct Building {
    text: String,
    parameters: Vec<String>,
    first_word: String,
    /// There is more than blanks and comments in it.
    begun: bool,
}

struct Lexer<'s> {
    rest: &'s str,
    done: Vec<Statement>,
    current: Building,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else { return };
        match first {
            ';' => {
                self.rest = &rest[1..];
                self.end_statement();
            }
            _ if rest.starts_with("--") => self.take(rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => self.take(comment(rest)),
            _ if first.is_whitespace() => self.take(first.len_utf8()),
            _ => {
                self.current.begun = true;
                self.token(first);
            }
        }
    }

    fn token(&mut self, first: char) {
        let rest = self.rest;
        match first {
            '\'' => self.take(quoted(rest, '\'', Backslash::IsPlain)),
            '"' => self.take(quoted(rest, '"', Backslash::IsPlain)),
            '$' => self.dollar(),
            ':' if rest.starts_with("::") || rest.starts_with(":=") => self.take(2),
            ':' if rest[1..].starts_with(is_name_start) => self.parameter(),
            _ if is_name_start(first) => self.word(),
            _ if first.is_ascii_digit() => self.take(word_len(rest)),
            _ => self.take(first.len_utf8()),
        }
    }

    fn word(&mut self) {
        let length = word_len(self.rest);
        let word = &self.rest[..length];
        if self.current.first_word.is_empty() {
            self.current.first_word = word.to_ascii_lowercase();
        }
        let escapes = word.eq_ignore_ascii_case("e") && self.rest[length..].starts_with('\'');
        self.take(length);
        if escapes {
            self.take(quoted(self.rest, '\'', Backslash::Escapes));
        }
    }

    fn parameter(&mut self) {
        let length = 1 + word_len(&self.rest[1..]);
        let name = self.rest[..length].to_owned();
        self.rest = &self.rest[length..];
        self.number(name);
    }

    /// The parameter under its number: one name has one number.
    fn number(&mut self, name: String) {
        let parameters = &mut self.current.parameters;
        let known = parameters.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            parameters.push(name);
            parameters.len() - 1
        });
        self.current.text += &format!("${}", place + 1);
    }

    fn dollar(&mut self) {
        let digits = self.rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len() - 1);
        if digits > 0 {
            let name = self.rest[..=digits].to_owned();
            self.rest = &self.rest[1 + digits..];
            return self.number(name);
        }
        let tag = self.rest[1..].find('$').map(|end| &self.rest[..end + 2]);
        let is_tag = |tag: &&str| {
            let name = &tag[1..tag.len() - 1];
            name.is_empty() || name.starts_with(is_name_start) && name.chars().all(is_tag_part)
        };
        match tag.filter(is_tag) {
            None => self.take(1),
            Some(tag) => {
                let body = &self.rest[tag.len()..];
                let end = body.find(tag).map_or(self.rest.len(), |end| tag.len() + end + tag.len());
                self.take(end);
            }
        }
    }

    /// Passes so many bytes on as they are.
    fn take(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.current.text += taken;
        self.rest = rest;
    }

    fn end_statement(&mut self) {
        let Building { text, parameters, first_word, begun } = std::mem::take(&mut self.current);
        if begun {
            self.done.push(Statement {
                text: text.trim().to_owned(),
                parameters,
                types: Vec::new(),
                first_word,
            });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    IsPlain,
    Escapes,
}

/// How long a quoted text is, with its quotes. A doubled quote ends one and begins the next, which comes to the same.
fn quoted(text: &str, quote: char, backslash: Backslash) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if backslash == Backslash::Escapes => escaped = true,
            // Inside an escaped string the next one would not be read as such: a doubled quote goes on.
            c if c == quote && backslash == Backslash::Escapes && text[index + 1..].starts_with(quote) => {
                escaped = true;
            }
            c if c == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// How long a comment is, with those inside it.
fn comment(text: &str) -> usize {
    let (mut depth, mut index) = (0_usize, 0);
    while index < text.len() {
        let rest = &text.as_bytes()[index..];
        if rest.starts_with(b"/*") {
            (depth, index) = (depth + 1, index + 2);
        } else if rest.starts_with(b"*/") {
            (depth, index) = (depth - 1, index + 2);
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    text.len()
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| !is_name_part(c)).unwrap_or(text.len())
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_tag_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit()
}

fn is_name_part(c: char) -> bool {
    is_tag_part(c) || c == '$'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        statements(sql).into_iter().map(|statement| statement.text).collect()
    }

    fn only(sql: &str) -> Statement {
        let mut statements = statements(sql);
        assert_eq!(statements.len(), 1, "{statements:?}");
        statements.remove(0)
    }

    #[test]
    fn parameters_get_numbers_and_one_name_has_one() {
        let statement = only("insert into t values (:key_id, :new_ä, :key_id, :op)");
        assert_eq!(statement.text, "insert into t values ($1, $2, $1, $3)");
        assert_eq!(statement.parameters, [":key_id", ":new_ä", ":op"]);
    }

    #[test]
    fn what_is_no_parameter_stays() {
        for sql in [
            "select a::text, f(x := 1), b[1:2], b[:2], b[x : y], 5 :: int",
            "select ':op', 'it''s :op; no', \"odd:op;\"\"name\"",
            r"select e'\':op;', E'a\\', E'a'':op;'",
            "select $$ :op; $$, $body$ $$ :op; $body$, a$b$c",
            "select 1 -- :op; 'not open",
            "select 1 /* :op; /* ; */ :op */ + 1",
        ] {
            let statement = only(sql);
            assert_eq!((statement.text.as_str(), statement.parameters.len()), (sql, 0), "{sql}");
        }
        assert_eq!(only("select :op::text").text, "select $1::text");
    }

    #[test]
    fn statements_end_at_semicolons_and_nothing_is_none() {
        assert_eq!(texts(" a 'x;' ; ; -- c;\n b:op ;/* ; */"), ["a 'x;'", "-- c;\n b$1"]);
        assert_eq!(texts(" -- nothing\n ; /* no */"), Vec::<String>::new());
    }

    #[test]
    fn numbers_of_ones_own_are_seen() {
        assert_eq!(only("select $1, $12").parameters, ["$1", "$12"]);
    }

    #[test]
    fn transactions_are_recognised_behind_comments_too() {
        for sql in [
            "BEGIN",
            "/* so */ Commit and chain",
            "start transaction",
            "prepare transaction 'x'",
            "END",
            "abort",
        ] {
            assert!(only(sql).is_about_transactions(), "{sql}");
        }
        for sql in ["prepare x as select 1", "insert into begin values (1)", "select 'commit'"] {
            assert!(!only(sql).is_about_transactions(), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much_for_it(sql in "[a'\"$:;/*\\\\e0 ü\n-]{0,40}") {
            statements(&sql);
        }
    }
}
