//! CloudEvents 1.0, as JSON or as headers.
//!
//! | attribute | value |
//! |---|---|
//! | `id` | the id of the change: the same on every redelivery, and no other change of the feed has it |
//! | `source` | `/seriatim/feeds/NAME` |
//! | `type` | `seriatim.insert`, `seriatim.update`, … |
//! | `subject`, `partitionkey` | the object |
//! | `time` | the moment of the change |

use seriatim::Change;

use super::field::{first, json, member};
use super::{identity, subject};

/// The media type of the data.
const DATA: &str = "application/json";

/// The attributes of a change, all but those that say how the data is written.
pub fn attributes(change: &Change) -> Vec<(&'static str, String)> {
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", identity(change)),
        ("source", source(change)),
        ("type", format!("seriatim.{}", change.op)),
        ("time", format!("{:.6}", change.at)),
    ];
    if let Some(subject) = subject(change) {
        attributes.push(("subject", subject.clone()));
        attributes.push(("partitionkey", subject));
    }
    attributes
}

/// Writes a structured event.
pub fn write(change: &Change, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in attributes(change).iter().enumerate() {
        match index {
            0 => first(out, name, value),
            _ => member(out, name, value),
        }
    }
    member(out, "datacontenttype", DATA);
    out.push(b',');
    json(out, "data");
    out.push(b':');
    change.write_json(out);
    out.push(b'}');
}

/// A reference to the feed, as URIs are written.
fn source(change: &Change) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let name = change.feed.as_str().bytes().fold(String::new(), |mut name, byte| {
        match plain(byte) {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("%{byte:02X}")),
        }
        name
    });
    format!("/seriatim/feeds/{name}")
}
