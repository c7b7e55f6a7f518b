//! Names: of tables as users write them, and of what a capture puts into the database.

/// A name as SQL wants it, whatever is in it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL wants it, whatever is in it and however the server reads backslashes.
pub(crate) fn literal(text: &str) -> String {
    let quotes = text.replace('\'', "''");
    if quotes.contains('\\') { format!("E'{}'", quotes.replace('\\', "\\\\")) } else { format!("'{quotes}'") }
}

/// A table as users write it: `orders`, `shop.orders`, `"My schema"."Order"`.
///
/// Without a schema it is in `public`: nothing depends on a search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub schema: String,
    pub table: String,
    /// Some part was written without quotes, so PostgreSQL would read it in lower case.
    pub folds: bool,
}

impl TableName {
    /// Understands what a user wrote; `None` when it is no name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, first_folds, rest) = part(text.trim())?;
        if rest.is_empty() {
            return Some(TableName { schema: "public".to_owned(), table: first, folds: first_folds });
        }
        let (second, second_folds, end) = part(rest.strip_prefix('.')?)?;
        let folds = first_folds || second_folds;
        end.is_empty().then_some(TableName { schema: first, table: second, folds })
    }

    /// The same name in lower case, where it was written without quotes.
    pub(crate) fn folded(&self) -> Option<Self> {
        let lower =
            TableName { schema: self.schema.to_lowercase(), table: self.table.to_lowercase(), folds: false };
        (self.folds && (lower.schema != self.schema || lower.table != self.table)).then_some(lower)
    }
}

/// One part of a name, whether it was written without quotes, and what follows it.
fn part(text: &str) -> Option<(String, bool, &str)> {
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find('.').unwrap_or(text.len());
        let name = &text[..end];
        return (!name.is_empty() && !name.contains('"')).then(|| (name.to_owned(), true, &text[end..]));
    };
    let mut name = String::new();
    let mut rest = inside;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (!name.is_empty()).then_some((name, false, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String)> {
        TableName::parse(text).map(|name| (name.schema, name.table))
    }

    #[test]
    fn names_are_read_as_postgresql_reads_them() {
        let is = |schema: &str, table: &str| Some((schema.to_owned(), table.to_owned()));
        assert_eq!(parsed("orders"), is("public", "orders"));
        assert_eq!(parsed("shop.orders"), is("shop", "orders"));
        assert_eq!(parsed(r#""My shop"."a ""b"".c""#), is("My shop", r#"a "b".c"#));
        assert_eq!(parsed(r#"shop."Order.s""#), is("shop", "Order.s"));
        for nothing in ["", ".", "a.", ".a", "a.b.c", r#""a"#, r#""a"b"#, r#"a"b"#, r#""""#] {
            assert_eq!(parsed(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_what_is_not_quoted_may_be_meant_in_lower_case() {
        let folded = |text: &str| TableName::parse(text).unwrap().folded().map(|name| name.table);
        assert_eq!(folded("Orders"), Some("orders".to_owned()));
        assert_eq!(folded(r#""Orders""#), None);
        assert_eq!(folded("orders"), None);
    }

    #[test]
    fn texts_mean_themselves_in_sql() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\b"), r"E'a\\b'");
        assert_eq!(quoted(r#"a"b"#), r#""a""b""#);
    }
}
