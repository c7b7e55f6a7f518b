//! How much of a feed may be parked, and when that is tried again by itself.

use seriatim::handler::Backoff;
use seriatim::host::{HEAL, ParkLimits};

use super::duration::backoff;
use super::section::{Keys, Section, Setting};
use super::url::quoted;
use crate::error::Result;

/// The keys of the section.
pub const PARKED: Keys = Keys::of(&["retry", "objects", "changes", "size", "object_changes", "object_size"]);

/// The bounds that the section sets.
pub fn parked(section: &Section<'_>) -> Result<ParkLimits> {
    let otherwise = ParkLimits::default();
    let count = |key: &str, otherwise: u64| {
        section.get(key)?.map_or(Ok(otherwise), |setting| setting.count(u32::MAX).map(u64::from))
    };
    let bytes = |key: &str, otherwise: u64| {
        let read = |setting: Setting<'_>| size(setting.text()?).map_err(|what| setting.wrong(what));
        section.get(key)?.map_or(Ok(otherwise), read)
    };
    Ok(ParkLimits {
        object_changes: count("object_changes", otherwise.object_changes)?,
        object_bytes: bytes("object_size", otherwise.object_bytes)?,
        objects: count("objects", otherwise.objects)?,
        changes: count("changes", otherwise.changes)?,
        bytes: bytes("size", otherwise.bytes)?,
    })
}

/// After which pauses the section has parked objects tried again; `None` for never.
pub fn heal(section: &Section<'_>) -> Result<Option<Backoff>> {
    let Some(setting) = section.get("retry")? else { return Ok(Some(HEAL)) };
    match setting.text()? {
        "never" => Ok(None),
        pauses => backoff(pauses).map(Some).map_err(|what| {
            setting.wrong(what).help(r#"write the first and the longest pause, such as "1m..1h", or "never""#)
        }),
    }
}

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Reads a size, or says what is wrong with it.
fn size(text: &str) -> Result<u64, String> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.trim().strip_suffix(unit)?, *bytes)));
    let read = unit.and_then(|(number, bytes)| number.trim().parse::<u64>().ok()?.checked_mul(bytes));
    read.filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!(r#"must be a size such as "64MiB" or "1GiB", not {}"#, quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size(" 2 GiB "), Ok(2 << 30));
        for wrong in ["", "64", "0MiB", "64 MB", "-1GiB", "99999999999999TiB", "1.5GiB"] {
            assert!(size(wrong).unwrap_err().contains("must be a size"), "{wrong}");
        }
    }
}
