//! "Did you mean": the name that a misspelt one is closest to.

/// The most similar of the candidates, when one is similar at all.
pub fn most_similar<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |candidate: &str| strsim::levenshtein(&name, &candidate.to_lowercase());
    let distances = candidates.iter().map(|candidate| (distance(candidate), *candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.chars().count() / 4).then_some(candidate)
}

/// The words for it, to stand behind what is wrong: ` (did you mean orders?)`; nothing when none is similar.
pub fn did_you_mean(name: &str, candidates: &[String]) -> String {
    let candidates: Vec<&str> = candidates.iter().map(String::as_str).collect();
    most_similar(name, &candidates).map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_found_and_a_stranger_is_not() {
        let tables = ["orders", "customers"];
        assert_eq!(most_similar("order", &tables), Some("orders"));
        assert_eq!(most_similar("Custmers", &tables), Some("customers"));
        assert_eq!(most_similar("invoices", &tables), None);
    }
}
