//! The arguments of the script: a change as the fields of an entry. Pure.

use seriatim::Change;
use seriatim::lease::Lease;
use seriatim::value::Key;
use xxhash_rust::xxh64::xxh64;

use crate::Envelope;
use crate::memory::Generation;

/// A longer object is named by a digest of it.
const LONGEST_OBJECT: usize = 64;

/// The arguments of one call.
pub struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    /// The first ones: whose changes these are, and how many.
    pub fn begin(
        books: &str,
        lease: &Lease,
        own: Option<Generation>,
        most: Option<u64>,
        count: usize,
    ) -> Self {
        let how = if own.is_some() { "remember" } else { "forget" };
        let generation = own.map_or(0, |generation| generation.0);
        let epoch = format!("{generation:016}-{:020}", lease.epoch.0);
        let most = most.map_or(String::new(), |most| most.to_string());
        let first = [
            books.to_owned(),
            how.to_owned(),
            lease.id.partition.to_string(),
            epoch,
            most,
            count.to_string(),
        ];
        Arguments(first.map(String::into_bytes).into())
    }

    /// Adds a change with its mark, and says how many bytes it has.
    pub fn add(&mut self, change: &Change, mark: &str, key: Option<String>, envelope: &Envelope) -> usize {
        let of = change.key.as_ref().map_or_else(|| format!("*{}", change.partition), object);
        let fields = fields(change, key, envelope);
        self.0.extend([
            of.into_bytes(),
            mark.as_bytes().to_vec(),
            (fields.len() * 2).to_string().into_bytes(),
        ]);
        let bytes = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.0.extend(fields.into_iter().flat_map(|(name, value)| [name.into_bytes(), value]));
        bytes
    }

    pub fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

/// The name of an object in the books.
pub fn object(key: &Key) -> String {
    let identity = key.identity();
    if identity.len() <= LONGEST_OBJECT {
        return identity;
    }
    let digest = |seed| xxh64(identity.as_bytes(), seed);
    format!("#{:016x}{:016x}", digest(0), digest(1))
}

/// The fields of an entry: enough beside the change to route it without reading it.
fn fields(change: &Change, key: Option<String>, envelope: &Envelope) -> Vec<(String, Vec<u8>)> {
    let text = |name: &str, value: String| (name.to_owned(), value.into_bytes());
    let mut fields = vec![
        text("feed", change.feed.to_string()),
        text("id", change.id.to_string()),
        text("op", change.op.to_string()),
    ];
    fields.extend(key.map(|key| text("key", key)));
    fields.extend(change.prev.map(|prev| text("prev", prev.to_string())));
    let attributes = envelope.attributes(change).into_iter();
    fields.extend(attributes.map(|(name, value)| text(&format!("ce-{name}"), value)));
    fields.push(("change".to_owned(), envelope.to_bytes(change)));
    fields
}
