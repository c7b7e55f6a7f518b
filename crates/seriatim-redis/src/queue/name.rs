//! Names of objects that are not text.
//!
//! A producer writes the names itself, as bytes. An object whose name is not UTF-8 is set aside; people see it, and can name it, as
//! `not-utf8:` and the bytes, of which those that are not text, and `%`, are written as `%FF`.

use seriatim::name::ObjectName;

const MARK: &str = "not-utf8:";

/// The name for these bytes.
pub(super) fn shown(bytes: &[u8]) -> ObjectName {
    match std::str::from_utf8(bytes) {
        Ok(name) => ObjectName::found(name),
        Err(_) => ObjectName::found(&escaped(bytes)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut name = MARK.to_owned();
    for chunk in bytes.utf8_chunks() {
        name.push_str(&chunk.valid().replace('%', "%25"));
        chunk.invalid().iter().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
    }
    name
}

/// The bytes that a name stands for.
pub(super) fn bytes(name: &ObjectName) -> Vec<u8> {
    let name = name.as_str();
    let written = name.strip_prefix(MARK).and_then(unescaped);
    // A name that only looks so is text all the same.
    written.filter(|bytes| std::str::from_utf8(bytes).is_err()).unwrap_or_else(|| name.as_bytes().to_vec())
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (number, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(number, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_text_is_shown_and_found_again() {
        let raw = b"work:\xff 5% \xc3(";
        assert_eq!(shown(raw).as_str(), "not-utf8:work:%FF 5%25 %C3(");
        assert_eq!(bytes(&shown(raw)), raw);
    }

    #[test]
    fn text_stays_as_it_is() {
        for name in ["work:1", "Straße", "not-utf8:work:%41", "not-utf8:%F", "5%"] {
            assert_eq!(shown(name.as_bytes()).as_str(), name);
            assert_eq!(bytes(&ObjectName::found(name)), name.as_bytes());
        }
    }
}
