//! A change as a message: its group, its id for deduplication, its attributes. Pure.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use ring::digest::{SHA256, digest};
use seriatim::name::SessionId;
use seriatim::{Change, Failure};

use crate::memory::Generation;
use crate::webhook::escaped;
use crate::{Envelope, Template, envelope};

/// Longer groups and ids are refused by SQS.
const LONGEST_NAME: usize = 128;
/// SQS takes no larger message.
const MOST_BYTES: usize = 1 << 20;
/// Messages that go together have no more than this together: any queue takes it.
const MOST_TOGETHER: usize = 256 << 10;
/// So many messages go together.
const MOST_AT_ONCE: usize = 10;

/// A message before it is sent.
#[derive(Debug)]
pub struct Message {
    group: String,
    deduplication: String,
    attributes: Vec<(String, String)>,
    body: String,
}

/// The message of a change. Without a generation, no two sendings have the same id.
pub fn of(
    change: &Change,
    generation: Option<Generation>,
    group: Option<&Template>,
    envelope: &Envelope,
) -> Result<Message, Failure> {
    let body = String::from_utf8(envelope.to_bytes(change))
        .map_err(|_| Failure::poison("the change is no text, and SQS takes texts alone"))?;
    let message = Message {
        group: name(group_of(change, group)?),
        deduplication: name(deduplication(change, generation)),
        attributes: attributes(change, envelope),
        body,
    };
    match message.bytes() {
        bytes if bytes > MOST_BYTES => Err(Failure::poison(format!(
            "the change has {bytes} bytes as a message; SQS takes {MOST_BYTES} at most"
        ))),
        _ => Ok(message),
    }
}

impl Message {
    fn bytes(&self) -> usize {
        let attribute = |(name, value): &(String, String)| name.len() + "String".len() + value.len();
        self.body.len() + self.attributes.iter().map(attribute).sum::<usize>()
    }

    /// The message as a part of a request, with its place as its name there.
    pub fn entry(&self, place: usize) -> Result<SendMessageBatchRequestEntry, BuildError> {
        let mut entry = SendMessageBatchRequestEntry::builder()
            .id(place.to_string())
            .message_group_id(&self.group)
            .message_deduplication_id(&self.deduplication)
            .message_body(&self.body);
        for (name, value) in &self.attributes {
            let value = MessageAttributeValue::builder().data_type("String").string_value(value).build()?;
            entry = entry.message_attributes(name, value);
        }
        entry.build()
    }
}

/// Puts messages together into requests.
pub fn chunks(messages: Vec<(usize, Message)>) -> Vec<Vec<(usize, Message)>> {
    let (mut chunks, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for message in messages {
        let more = message.1.bytes();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < MOST_AT_ONCE && bytes + more <= MOST_TOGETHER => {
                bytes += more;
                chunk.push(message);
            }
            _ => {
                bytes = more;
                chunks.push(vec![message]);
            }
        }
    }
    chunks
}

/// The object, or what the template makes of it. A change of everything has a group for each partition.
fn group_of(change: &Change, template: Option<&Template>) -> Result<String, Failure> {
    if change.key.is_none() {
        return Ok(format!("*{}", change.partition));
    }
    let group = match template {
        Some(template) => template.render(change, str::to_owned),
        None => envelope::subject(change),
    };
    group.ok_or_else(|| Failure::poison("the change has no column for its message group"))
}

fn deduplication(change: &Change, generation: Option<Generation>) -> String {
    match generation {
        Some(generation) => format!("{}/{}/{}", change.feed, generation.0, envelope::identity(change)),
        None => SessionId::random().to_string(),
    }
}

/// A text as SQS takes it for a name: itself where that can be, else its digest.
fn name(text: String) -> String {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && text.len() <= LONGEST_NAME && !text.starts_with('#') {
        return text;
    }
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().fold("#".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// At most nine, where ten are taken.
fn attributes(change: &Change, envelope: &Envelope) -> Vec<(String, String)> {
    let of_cloudevents = envelope.attributes(change);
    let mut attributes = match of_cloudevents.is_empty() {
        true => vec![
            ("seriatim-feed".to_owned(), escaped(change.feed.as_str())),
            ("seriatim-id".to_owned(), change.id.to_string()),
            ("seriatim-op".to_owned(), change.op.to_string()),
        ],
        false => {
            of_cloudevents.into_iter().map(|(name, value)| (format!("ce-{name}"), escaped(&value))).collect()
        }
    };
    attributes.extend(change.prev.map(|prev| ("seriatim-prev".to_owned(), prev.to_string())));
    attributes.push(("content-type".to_owned(), envelope.content_type(true).to_owned()));
    // SQS takes no empty ones.
    attributes.retain(|(_, value)| !value.is_empty());
    attributes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seriatim::value::{Key, Value};
    use seriatim_testkit::sink_conformance::change;

    use super::*;
    use crate::{Format, Mode};

    fn message(change: &Change, generation: u64) -> Message {
        of(change, Some(Generation(generation)), None, &Envelope::default()).unwrap()
    }

    #[test]
    fn the_same_change_of_the_same_life_has_the_same_id_and_no_other_has_it() {
        let id = |object, id, generation| message(&change(object, id), generation).deduplication;
        assert_eq!(id(1, 7, 3), id(1, 7, 3));
        assert_ne!(id(1, 7, 3), id(1, 8, 3));
        assert_ne!(id(1, 7, 3), id(1, 7, 4));
        let anew = || of(&change(1, 7), None, None, &Envelope::default()).unwrap().deduplication;
        assert_ne!(anew(), anew());
    }

    #[test]
    fn a_group_is_the_object_or_a_template_of_it() {
        assert_eq!(message(&change(42, 7), 1).group, "42");
        let template = Template::parse("o-{id}").unwrap();
        let made = of(&change(42, 7), None, Some(&template), &Envelope::default()).unwrap();
        assert_eq!(made.group, "o-42");
        let missing = Template::parse("{colour}").unwrap();
        assert!(of(&change(42, 7), None, Some(&missing), &Envelope::default()).is_err());
    }

    #[test]
    fn there_are_never_more_attributes_than_sqs_takes() {
        let envelope = Envelope::new(Format::CloudEvents, Default::default()).in_mode(Mode::Binary);
        let sent = Change { prev: Some(1), ..change(1, 7) };
        let attributes = of(&sent, None, None, &envelope).unwrap().attributes;
        assert_eq!(attributes.len(), 9, "{attributes:?}");
    }

    proptest! {
        #[test]
        fn any_key_has_a_group_that_sqs_takes_and_no_two_have_the_same(one in r"\PC{0,200}", other in r"\PC{0,200}") {
            let group = |key: &str| {
                let key = Some(Key::of("id", Value::Text(key.into())));
                message(&Change { key, ..change(1, 1) }, 1).group
            };
            let name = group(&one);
            prop_assert!(!name.is_empty() && name.len() <= LONGEST_NAME);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(name == group(&other), one == other);
        }

        #[test]
        fn requests_have_all_messages_in_order_and_are_within_the_bounds(sizes in prop::collection::vec(1..200_000usize, 0..40)) {
            let made = |(place, size): (usize, &usize)| {
                (place, Message { group: String::new(), deduplication: String::new(), attributes: vec![], body: "x".repeat(*size) })
            };
            let chunks = chunks(sizes.iter().enumerate().map(made).collect());
            for chunk in &chunks {
                let bytes: usize = chunk.iter().map(|(_, message)| message.bytes()).sum();
                prop_assert!(chunk.len() <= 10 && bytes <= MOST_TOGETHER);
            }
            let places: Vec<usize> = chunks.iter().flatten().map(|(place, _)| *place).collect();
            prop_assert_eq!(places, (0..sizes.len()).collect::<Vec<_>>());
        }
    }
}
