//! Unique generated columns that a trigger *before* a write cannot know.
//!
//! Before an insert SQLite has not chosen the key yet, and `OR REPLACE` has not put defaults in place of NULLs. A generated
//! column that depends on one of them has another value then, so nobody can tell which row it will replace.

/// The expression of a generated column, from the statement that made its table; `None` when it cannot be found.
fn expression<'a>(sql: &'a str, column: &str) -> Option<&'a str> {
    let lower = sql.to_ascii_lowercase();
    let name = column.to_ascii_lowercase();
    let mut from = lower.find('(')?;
    loop {
        let at = from + lower[from..].find(&name)?;
        let rest = &lower[at + name.len()..];
        let definition = rest.trim_start_matches(['"', '`', ']']).trim_start();
        if let Some(open) = opening(definition) {
            let start = sql.len() - definition.len() + open;
            return balanced(&sql[start..]);
        }
        from = at + name.len();
    }
}

/// Where the bracket after AS is, if the column's definition comes to one before the next column.
fn opening(definition: &str) -> Option<usize> {
    let open = definition.find('(')?;
    let before = &definition[..open];
    let is_generated = before.trim_end().ends_with("as") && !before.contains(',');
    is_generated.then_some(open)
}

/// What is between a bracket and the one that closes it.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..=index]);
        }
    }
    None
}

/// Whether a generated column may depend on one of these others. In doubt it does.
pub(super) fn may_depend(sql: &str, column: &str, others: &[&str]) -> bool {
    let Some(expression) = expression(sql, column) else { return true };
    let lower = expression.to_ascii_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let plain = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let others: Vec<String> = others.iter().map(|name| name.to_ascii_lowercase()).collect();
    words.any(|word| others.iter().any(|name| name == word))
        || others.iter().any(|name| !plain(name) && lower.contains(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_column_depends_on_what_its_expression_names() {
        let sql = "CREATE TABLE t (id integer primary key, n, g int AS (id % 3) stored unique, \"h\" generated always as ((n) * 2), i as (g))";
        assert!(may_depend(sql, "g", &["id"]) && !may_depend(sql, "h", &["id"]));
        assert!(may_depend(sql, "i", &["id", "g"]) && !may_depend(sql, "g", &["n"]));
        assert!(may_depend(sql, "unknown", &["id"]), "in doubt");
    }
}
