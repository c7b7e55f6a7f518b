//! What is posted: body, key and signature. Pure.

use ring::hmac;
use seriatim::Change;
use seriatim::lease::LeaseId;
use seriatim::name::Partition;
use xxhash_rust::xxh64::Xxh64;

/// The changes of one request.
pub struct Body {
    bytes: Vec<u8>,
    /// That of the first change: what was parked keeps it when the number of the feed's partitions changes.
    partition: Option<Partition>,
    first: u64,
    last: u64,
    /// Over the ids, where there are several: first and last do not say what is between them.
    digest: Option<u64>,
}

impl Body {
    /// One object if it is to be `single`, else an array.
    pub fn of(changes: &[Change], single: bool) -> Self {
        let ends = (changes.first(), changes.last());
        let id = |change: Option<&Change>| change.map_or(0, |change| change.id);
        let digest = (changes.len() > 1).then(|| digest(changes));
        let bytes = match changes {
            [change] if single => change.to_json().into_bytes(),
            changes => array(changes),
        };
        let partition = ends.0.map(|change| change.partition);
        Body { bytes, partition, first: id(ends.0), last: id(ends.1), digest }
    }

    /// The same for the same changes, and different for others.
    pub fn key(&self, lease: &LeaseId) -> String {
        let partition = self.partition.unwrap_or(lease.partition);
        let place = format!("{}/{partition}/{}-{}", escaped(lease.feed.as_str()), self.first, self.last);
        match self.digest {
            Some(digest) => format!("{place}/{digest:016x}"),
            None => place,
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn array(changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    bytes.push(b'[');
    Change::write_json_of_all(changes, ",", &mut bytes);
    bytes.push(b']');
    bytes
}

fn digest(changes: &[Change]) -> u64 {
    let mut hash = Xxh64::new(0);
    changes.iter().for_each(|change| hash.update(&change.id.to_le_bytes()));
    hash.digest()
}

/// Text as a header can have it: whatever is not plain is written as `%` and two digits.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| (byte.is_ascii_graphic() && byte != b'%') || byte == b' ';
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        match plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
        escaped
    })
}

/// Signs bodies by HMAC-SHA256.
pub struct Signer(hmac::Key);

impl Signer {
    pub fn new(secret: &str) -> Self {
        Signer(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// `sha256=` and the digits, in hexadecimal.
    pub fn sign(&self, body: &Body) -> String {
        let tag = hmac::sign(&self.0, &body.bytes);
        tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use seriatim::change::{Op, Position};
    use seriatim::{FeedName, Key, Value};

    use super::*;

    fn change(id: u64) -> Change {
        Change {
            feed: FeedName::new("totals").unwrap(),
            partition: Partition(3),
            position: Position::number(id),
            key: Some(Key::of("id", Value::Integer(1))),
            op: Op::Upsert,
            at: Timestamp::UNIX_EPOCH,
            before: None,
            after: None,
            id,
            prev: None,
        }
    }

    fn key(ids: &[u64]) -> String {
        let changes: Vec<Change> = ids.iter().map(|id| change(*id)).collect();
        let lease = LeaseId { feed: FeedName::new("totals").unwrap(), partition: Partition(3) };
        Body::of(&changes, false).key(&lease)
    }

    #[test]
    fn the_key_names_exactly_the_changes() {
        assert_eq!(key(&[17]), "totals/3/17-17");
        assert!(key(&[17, 19]).starts_with("totals/3/17-19/"));
        assert_eq!(key(&[17, 19]), key(&[17, 19]));
        assert_ne!(key(&[17, 19]), key(&[17, 18, 19]), "a receiver that knows one must not skip the other");
    }

    #[test]
    fn a_change_that_was_parked_keeps_its_key_in_another_partition() {
        let elsewhere = LeaseId { feed: FeedName::new("totals").unwrap(), partition: Partition(9) };
        assert_eq!(Body::of(&[change(17)], false).key(&elsewhere), key(&[17]));
    }

    #[test]
    fn a_body_is_an_array_or_one_object() {
        let one = String::from_utf8(Body::of(&[change(1)], true).into_bytes()).unwrap();
        assert!(one.starts_with(r#"{"feed":"totals""#), "{one}");
        let many = String::from_utf8(Body::of(&[change(1), change(2)], false).into_bytes()).unwrap();
        assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&many).unwrap().len(), 2);
        assert!(Body::of(&[change(1)], false).into_bytes().starts_with(b"["));
    }

    #[test]
    fn a_signature_is_what_others_compute() {
        // RFC 4231, test case 2.
        let body = Body {
            partition: None,
            bytes: b"what do ya want for nothing?".to_vec(),
            first: 0,
            last: 0,
            digest: None,
        };
        assert_eq!(
            Signer::new("Jefe").sign(&body),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn names_fit_into_headers() {
        assert_eq!(escaped("my totals"), "my totals");
        assert_eq!(escaped("Ü%"), "%C3%9C%25");
    }
}
