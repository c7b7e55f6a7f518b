//! Two sides, measured by turns in small rounds, so that whatever else the machine does slows both.

/// What was measured in each round: of Seriatim, and of what it is compared with.
#[derive(Default)]
pub(crate) struct Rounds(Vec<(f64, f64)>);

impl Rounds {
    pub(crate) fn add(&mut self, value: f64, limit: f64) {
        self.0.push((value, limit));
    }

    /// The round in the middle, by how the two compare.
    pub(crate) fn middle(mut self) -> (f64, f64) {
        self.0.sort_by(|(value, limit), (other, than)| (value / limit).total_cmp(&(other / than)));
        self.0.get(self.0.len() / 2).copied().unwrap_or((f64::NAN, f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_was_disturbed_does_not_count() {
        let mut rounds = Rounds::default();
        for (value, limit) in [(8.0, 10.0), (1.0, 10.0), (7.0, 10.0), (9.0, 1.0), (75.0, 100.0)] {
            rounds.add(value, limit);
        }
        assert_eq!(rounds.middle(), (75.0, 100.0));
    }
}
