//! Errors of one kind: the same words, whatever object they are about.

/// So much of an error tells its kind.
const MOST: usize = 120;

/// The kind of an error: its words, without numbers, names in quotes, and what holds digits. Errors of different objects with the same
/// cause have the same one; it is empty where an error has no words.
pub fn group_of(error: &str) -> String {
    let mut group = String::new();
    for word in unquoted(error).split_whitespace() {
        let word = if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word };
        if group.len() + word.len() > MOST {
            break;
        }
        if !(word == "#" && group.ends_with("# ")) {
            group.push_str(word);
            group.push(' ');
        }
    }
    group
}

/// The text with nothing between quotes or braces.
fn unquoted(text: &str) -> String {
    let (mut plain, mut until) = (String::new(), None);
    for c in text.chars().take(MOST * 10) {
        match (until, c) {
            (Some(end), c) if c == end => until = None,
            (Some(_), _) => {}
            (None, '"' | '`') => until = Some(c),
            (None, '{') => until = Some('}'),
            (None, c) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_its_object_is_of_one_kind() {
        let same = [
            r#"http://shop.example/in answered 500 Internal Server Error: no customer 4711 "Smith" {"id":1}"#,
            r#"http://shop.example/in answered 500 Internal Server Error: no customer 12 "Miller" {"id":22}"#,
        ];
        assert_eq!(group_of(same[0]), group_of(same[1]));
        let others = ["the command did not answer change 7 within 30s", "no such table: totals", ""];
        others.iter().for_each(|other| assert_ne!(group_of(other), group_of(same[0])));
    }

    #[test]
    fn a_kind_is_short_however_long_the_error_is() {
        assert!(group_of(&"word ".repeat(10_000)).len() <= MOST + 2);
        assert!(group_of(&"x".repeat(10_000)).is_empty());
        assert_eq!(group_of(&"1 2 3 ".repeat(100)), "# ");
    }
}
