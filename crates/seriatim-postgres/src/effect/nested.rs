//! Arrays and composites: from the JSON that a journal has of them to the text that PostgreSQL reads as their type.

use serde::Deserialize as _;
use serde_json::value::RawValue;
use tokio_postgres::types::{Kind, Type};

/// The text of a value of this type, by its JSON; `None` when the type is neither an array nor a composite, or the JSON is not
/// one of its values.
pub(super) fn literal(json: &str, of: &Type) -> Option<String> {
    match of.kind() {
        Kind::Array(element) => {
            let mut text = String::new();
            array(json, element, &mut text)?;
            Some(text)
        }
        Kind::Composite(fields) => {
            let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
            // Their texts, since numbers keep all their digits there.
            let texts: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
            let known = |name: &String| fields.iter().any(|field| field.name() == name);
            members.keys().all(known).then_some(())?;
            let field = |field: &tokio_postgres::types::Field| match texts.get(field.name()) {
                Some(value) => item(value.get(), field.type_()).map(|text| text.map(quoted)),
                None => Some(None),
            };
            let parts = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
            let parts: Vec<String> = parts.into_iter().map(Option::unwrap_or_default).collect();
            Some(format!("({})", parts.join(",")))
        }
        Kind::Domain(base) => literal(json, base),
        _ => None,
    }
}

/// An array, or one of its dimensions.
fn array(json: &str, element: &Type, text: &mut String) -> Option<()> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    text.push('{');
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let value = value.get();
        // Documents may be lists themselves. All others are a further dimension then.
        match value.starts_with('[') && !is_document(element) {
            true => array(value, element, text)?,
            false => text.push_str(&item(value, element)?.map_or_else(|| "NULL".to_owned(), quoted)),
        }
    }
    text.push('}');
    Some(())
}

/// One value inside of another, as its type reads it; `Some(None)` for NULL.
fn item(json: &str, of: &Type) -> Option<Option<String>> {
    if json == "null" && !is_document(of) {
        return Some(None);
    }
    if let Some(text) = literal(json, of) {
        return Some(Some(text));
    }
    match json.starts_with('"') && !is_document(of) {
        true => String::deserialize(&mut serde_json::Deserializer::from_str(json)).ok().map(Some),
        false => Some(Some(json.to_owned())),
    }
}

fn is_document(of: &Type) -> bool {
    match of.kind() {
        Kind::Domain(base) => is_document(base),
        _ => [Type::JSON, Type::JSONB].contains(of),
    }
}

/// In quotes, whatever is in it.
fn quoted(text: String) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_written_as_its_type_reads_it() {
        let text = |json: &str, of: &Type| literal(json, of);
        assert_eq!(text("[1, null,3]", &Type::INT4_ARRAY).unwrap(), r#"{"1",NULL,"3"}"#);
        assert_eq!(text("[]", &Type::INT4_ARRAY).unwrap(), "{}");
        assert_eq!(text("[[1],[2]]", &Type::INT4_ARRAY).unwrap(), r#"{{"1"},{"2"}}"#);
        assert_eq!(text(r#"["a\"b\\","NULL"]"#, &Type::TEXT_ARRAY).unwrap(), r#"{"a\"b\\","NULL"}"#);
        assert_eq!(
            text(r#"[[1],"x",{"a": 1.10}]"#, &Type::JSONB_ARRAY).unwrap(),
            r#"{"[1]","\"x\"","{\"a\": 1.10}"}"#
        );
        assert_eq!(text("[1.10]", &Type::NUMERIC_ARRAY).unwrap(), r#"{"1.10"}"#, "with all its digits");
    }

    #[test]
    fn other_types_are_left_as_they_are() {
        assert_eq!(literal("[1]", &Type::JSONB), None);
        assert_eq!(literal("[1]", &Type::TEXT), None);
        assert_eq!(literal("{1,2}", &Type::INT4_ARRAY), None, "this is what its type reads already");
    }
}
