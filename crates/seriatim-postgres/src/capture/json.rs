//! JSON as PostgreSQL writes it, taken apart without making anything of it: slices of the text itself.

use std::borrow::Cow;

/// The members of an object: each name, still in its escapes, and the text of its value. `None` when it is no object.
pub(crate) fn members(object: &str) -> Option<Members<'_>> {
    let rest = object.trim_start().strip_prefix('{')?;
    Some(Members { rest })
}

/// What is left of an object.
pub(crate) struct Members<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.trim_start_matches([' ', '\n', '\t', '\r', ',']);
        let name = rest.strip_prefix('"')?;
        let end = string_end(name.as_bytes())?;
        let (name, rest) = (&name[..end], &name[end + 1..]);
        let value = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = value_end(value.as_bytes())?;
        self.rest = &value[end..];
        Some((name, &value[..end]))
    }
}

/// The columns whose `null` is a document, as the last member of a row says, which has no name; their names are still in their
/// escapes. No column and nothing inside of one can look like it: what stands at the end belongs to the row itself.
///
/// Behind an empty name, which no column has, follow those whose values are not known.
pub(crate) fn marks(row: &str) -> Marks<'_> {
    const HEAD: &str = ",\"\":[";
    let list = row.strip_suffix("]}").and_then(|rest| rest.rfind(HEAD).map(|at| &rest[at + HEAD.len()..]));
    let mut documents = list.and_then(strings).unwrap_or_default();
    match documents.iter().position(|name| name.is_empty()) {
        Some(end) => {
            let unknown = documents.split_off(end + 1);
            documents.truncate(end);
            Marks { documents, unknown }
        }
        None => Marks { documents, unknown: Vec::new() },
    }
}

/// What a row's JSON says beside its columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks<'a> {
    /// Columns whose `null` is a document.
    pub documents: Vec<&'a str>,
    /// Columns that the row has and its JSON has not: their values are not known.
    pub unknown: Vec<&'a str>,
}

/// Strings with a comma between them; `None` when it is anything else.
fn strings(mut list: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    loop {
        let inside = list.strip_prefix('"')?;
        let end = string_end(inside.as_bytes())?;
        found.push(inside.get(..end)?);
        match inside.get(end + 1..)? {
            "" => return Some(found),
            rest => list = rest.strip_prefix(',')?,
        }
    }
}

/// Where a string ends whose first quote is behind us.
#[inline]
fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Where the value ends that begins here.
#[inline]
pub(crate) fn value_end(bytes: &[u8]) -> Option<usize> {
    match *bytes.first()? {
        b'"' => Some(string_end(&bytes[1..])? + 2),
        b'{' | b'[' => nested_end(bytes),
        _ => Some(bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(bytes.len())),
    }
}

fn nested_end(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    loop {
        match *bytes.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => at += string_end(&bytes[at + 1..])? + 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The text inside a string's quotes, or of a name, without its escapes.
pub(crate) fn unescaped(inside: &str) -> Cow<'_, str> {
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    let quoted = format!("\"{inside}\"");
    serde_json::from_str::<String>(&quoted).map_or(Cow::Borrowed(inside), Cow::Owned)
}

/// The text of a string value; `None` when the value is no string.
pub(crate) fn string(value: &str) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescaped(inside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn null_documents(row: &str) -> Vec<&str> {
        marks(row).documents
    }

    #[test]
    fn columns_whose_values_are_not_known_come_behind_an_empty_name() {
        let marked = marks(r#"{"id":1,"j":null,"":["j","","body","x"]}"#);
        assert_eq!(marked, Marks { documents: vec!["j"], unknown: vec!["body", "x"] });
        let only = marks(r#"{"id":1,"":["","body"]}"#);
        assert_eq!(only, Marks { documents: vec![], unknown: vec!["body"] });
    }

    #[test]
    fn the_list_of_null_documents_is_the_rows_own() {
        assert_eq!(null_documents(r#"{"id":1,"j":null,"":["j"]}"#), ["j"]);
        assert_eq!(
            null_documents(r#"{"a\"b":null,",\"\":[":null,"":["a\"b",",\"\":["]}"#),
            [r#"a\"b"#, r#",\"\":["#]
        );
        for row in [
            r#"{"id":1,"j":null}"#,
            r#"{"id":1,"a":[{"b":1,"":["c"]}]}"#,
            r#"{"id":1,"a":{"b":1,"":["c"]}}"#,
            r#"{"id":1,"a":[",\"\":[\"x"]}"#,
            r#"{"id":1,"a":["x","y"]}"#,
        ] {
            assert!(null_documents(row).is_empty(), "{row}");
        }
    }

    #[test]
    fn an_object_is_taken_apart_at_its_own_level_only() {
        let object =
            r#"{"id":1,"na\"me":"a}\",{b","doc":{"x": [1, "]"]} ,"list":[[1],[2]],"no":null, "t":true}"#;
        let found: Vec<_> = members(object).unwrap().collect();
        assert_eq!(
            found,
            [
                ("id", "1"),
                (r#"na\"me"#, r#""a}\",{b""#),
                ("doc", r#"{"x": [1, "]"]}"#),
                ("list", "[[1],[2]]"),
                ("no", "null"),
                ("t", "true")
            ]
        );
        assert_eq!(members("{}").unwrap().count(), 0);
        assert!(members("[1]").is_none());
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_read_back(pairs in prop::collection::vec((".*", ".*", any::<i64>()), 0..5)) {
            let value = |text: &String, number: &i64| serde_json::json!([text, number, { "x": text }]);
            let object = pairs.iter().map(|(name, text, number)| format!(
                "{}:{}", serde_json::to_string(name).unwrap(), value(text, number)
            )).collect::<Vec<_>>().join(",");
            let object = format!("{{{object}}}");
            let found: Vec<_> = members(&object).unwrap().collect();
            prop_assert_eq!(found.len(), pairs.len());
            for ((name, json), (expected, text, number)) in found.into_iter().zip(&pairs) {
                prop_assert_eq!(unescaped(name), expected.as_str());
                prop_assert_eq!(json.parse::<serde_json::Value>().unwrap(), value(text, number));
            }
        }
    }
}
