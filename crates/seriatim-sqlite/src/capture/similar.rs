//! "Did you mean": the name that a misspelt one is closest to.

/// The most similar of the candidates, when one is similar at all.
pub(super) fn most_similar<'a>(name: &str, candidates: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distances =
        candidates.iter().map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.chars().count() / 4).then_some(candidate.as_str())
}

/// How many letters must be added, removed or replaced to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, target) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *target);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_found_and_a_stranger_is_not() {
        let tables = ["orders".to_owned(), "customers".to_owned()];
        assert_eq!(most_similar("order", &tables), Some("orders"));
        assert_eq!(most_similar("Custmers", &tables), Some("customers"));
        assert_eq!(most_similar("invoices", &tables), None);
    }
}
