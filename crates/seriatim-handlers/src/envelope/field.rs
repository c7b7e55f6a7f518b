//! Members of JSON objects, written piece by piece.

use serde::Serialize;

/// Writes a value as JSON. Texts and numbers always can be.
pub fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.extend_from_slice(b"null");
    }
}

/// Writes `"name":value` behind a comma.
pub fn member(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    out.push(b',');
    first(out, name, value);
}

/// Writes `"name":value`.
pub fn first(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    json(out, name);
    out.push(b':');
    json(out, value);
}
