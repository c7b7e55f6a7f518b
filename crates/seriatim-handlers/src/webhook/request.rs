//! What is posted: body, key and signature. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use seriatim::Change;
use seriatim::lease::LeaseId;
use seriatim::name::Partition;
use xxhash_rust::xxh64::Xxh64;

use super::BadWebhook;
use crate::Envelope;

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
    pub fn of(changes: &[Change], single: bool, envelope: &Envelope) -> Self {
        let ends = (changes.first(), changes.last());
        let id = |change: Option<&Change>| change.map_or(0, |change| change.id);
        let digest = (changes.len() > 1).then(|| digest(changes));
        let bytes = match changes {
            [change] if single => envelope.to_bytes(change),
            changes => array(changes, envelope),
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

    /// The same as the key, in the letters of Standard Webhooks, whose signatures part an id from what follows by a full stop.
    pub fn message_id(&self, lease: &LeaseId) -> String {
        self.key(lease).replace('.', "%2E")
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn array(changes: &[Change], envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    bytes.push(b'[');
    envelope.write_all(changes, ",", &mut bytes);
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

/// Text as the headers of a CloudEvent have it: also spaces and quotes are written as `%` and two digits.
pub fn escaped_attribute(text: &str) -> String {
    escaped(text).replace(' ', "%20").replace('"', "%22")
}

/// Signs bodies by HMAC-SHA256, with each of several secrets: a receiver that knows one of them can check it.
pub struct Signer {
    /// The first secret as it stands.
    plain: hmac::Key,
    /// What Standard Webhooks makes of each secret.
    keys: Vec<hmac::Key>,
}

/// What a secret in base64 begins with.
const IN_BASE64: &str = "whsec_";

/// Whether bodies can be signed with this secret.
pub fn check_secret(secret: &str) -> Result<(), BadWebhook> {
    key_of(secret).map(drop)
}

fn key_of(secret: &str) -> Result<hmac::Key, BadWebhook> {
    let bytes = match secret.strip_prefix(IN_BASE64) {
        Some(coded) => STANDARD.decode(coded).map_err(|_| BadWebhook::Secret)?,
        None => secret.as_bytes().to_vec(),
    };
    if bytes.is_empty() {
        return Err(BadWebhook::Secret);
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

impl Signer {
    /// `None` without a secret.
    pub fn new(secrets: &[String]) -> Result<Option<Self>, BadWebhook> {
        let Some(first) = secrets.first() else { return Ok(None) };
        let keys = secrets.iter().map(|secret| key_of(secret)).collect::<Result<_, _>>()?;
        Ok(Some(Signer { plain: hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes()), keys }))
    }

    /// `sha256=` and the digits, in hexadecimal: over the body alone, with the first secret.
    pub fn sign(&self, body: &Body) -> String {
        let tag = hmac::sign(&self.plain, &body.bytes);
        tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The signatures of Standard Webhooks over id, time and body, one for each secret.
    pub fn sign_message(&self, id: &str, second: i64, body: &Body) -> String {
        let sign = |key: &hmac::Key| {
            let mut context = hmac::Context::with_key(key);
            context.update(format!("{id}.{second}.").as_bytes());
            context.update(&body.bytes);
            format!("v1,{}", STANDARD.encode(context.sign()))
        };
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
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
        Body::of(&changes, false, &Envelope::default()).key(&lease)
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
        assert_eq!(Body::of(&[change(17)], false, &Envelope::default()).key(&elsewhere), key(&[17]));
    }

    #[test]
    fn a_body_is_an_array_or_one_object() {
        let one = String::from_utf8(Body::of(&[change(1)], true, &Envelope::default()).into_bytes()).unwrap();
        assert!(one.starts_with(r#"{"feed":"totals""#), "{one}");
        let many =
            String::from_utf8(Body::of(&[change(1), change(2)], false, &Envelope::default()).into_bytes())
                .unwrap();
        assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&many).unwrap().len(), 2);
        assert!(Body::of(&[change(1)], false, &Envelope::default()).into_bytes().starts_with(b"["));
    }

    fn body(text: &str) -> Body {
        Body { partition: None, bytes: text.as_bytes().to_vec(), first: 0, last: 0, digest: None }
    }

    fn signer(secrets: &[&str]) -> Signer {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        Signer::new(&secrets).unwrap().unwrap()
    }

    #[test]
    fn a_signature_is_what_others_compute() {
        // RFC 4231, test case 2.
        let body = body("what do ya want for nothing?");
        assert_eq!(
            signer(&["Jefe"]).sign(&body),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_message_is_signed_as_standard_webhooks_has_it() {
        // The example of its specification.
        let (body, id) = (body(r#"{"test": 2432232314}"#), "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = signer(&[secret]).sign_message(id, 1_614_265_330, &body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signer(&["raw", secret]).sign_message(id, 1_614_265_330, &body);
        assert!(both.ends_with(&format!(" {signed}")) && both.starts_with("v1,"), "{both}");
        assert_ne!(signed, signer(&[secret]).sign_message(id, 1_614_265_331, &body), "a replay has its time");
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        for bad in ["whsec_", "whsec_a!", ""] {
            assert!(check_secret(bad).is_err(), "{bad}");
        }
        assert!(
            check_secret("raw").is_ok() && check_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_ok()
        );
    }

    #[test]
    fn an_id_has_no_full_stop() {
        let lease = LeaseId { feed: FeedName::new("shop.totals").unwrap(), partition: Partition(3) };
        assert_eq!(
            Body::of(&[change(17)], false, &Envelope::default()).message_id(&lease),
            "shop%2Etotals/3/17-17"
        );
    }

    #[test]
    fn names_fit_into_headers() {
        assert_eq!(escaped("my totals"), "my totals");
        assert_eq!(escaped("Ü%"), "%C3%9C%25");
    }
}
