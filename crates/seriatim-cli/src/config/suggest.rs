//! "Did you mean …?"

/// How alike two words must be before one is suggested for the other, from 0 to 1.
const ALIKE: f64 = 0.75;

/// The candidate that was probably meant, if any is close to what was written.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let likeness = |candidate: &str| strsim::jaro_winkler(&written, &candidate.to_lowercase());
    let scored = candidates.into_iter().map(|candidate| (likeness(candidate), candidate));
    let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(score, _)| *score >= ALIKE).map(|(_, candidate)| candidate)
}

/// What to tell somebody who wrote a word that is not among these: the one that was meant, or all of them.
pub fn instead_of(written: &str, candidates: &[&str]) -> String {
    match closest(written, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean {candidate:?}?"),
        None => format!("it can be: {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let keys = ["source", "capture", "table", "partitions"];
        assert_eq!(closest("tabel", keys), Some("table"));
        assert_eq!(closest("partition", keys), Some("partitions"));
        assert_eq!(closest("Capture", keys), Some("capture"));
        assert_eq!(closest("colour", keys), None);
        assert_eq!(closest("x", []), None);
    }

    #[test]
    fn a_word_like_no_other_gets_the_whole_list() {
        assert_eq!(instead_of("zebra", &["park", "skip"]), "it can be: park, skip");
        assert_eq!(instead_of("parc", &["park", "skip"]), r#"did you mean "park"?"#);
    }
}
