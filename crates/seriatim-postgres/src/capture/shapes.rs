//! The columns that a watched table has and had, with their types: an image is read as its columns were when it was noted.
//!
//! Nobody tells when a table is altered. It is found out afterwards, and then the catalogue says which transaction altered
//! which column last. Altering waits for all writers and keeps them waiting, so there is an id before which every image has the
//! old columns, and after which every image has the new ones.

use serde::{Deserialize, Serialize};

use super::table::{Column, Table};
use super::value::Reading;

/// The columns that a table had, from one id on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The changes with a greater id have these columns.
    pub since: i64,
    pub columns: Vec<Typed>,
}

/// A column, as far as reading its values goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Typed {
    pub number: i16,
    pub name: String,
    base: u32,
    sort: char,
    category: char,
}

impl Typed {
    /// A column of this name whose type, without its domains, has this number, sort and category.
    pub(crate) fn new(number: i16, name: &str, (base, sort, category): (u32, char, char)) -> Self {
        Typed { number, name: name.to_owned(), base, sort, category }
    }

    /// The columns of a table as it is now.
    pub(crate) fn all(table: &Table) -> Vec<Typed> {
        table.columns.iter().map(Typed::of).collect()
    }

    fn of(column: &Column) -> Self {
        let Column { number, name, base, sort, category, .. } = column;
        Typed { number: *number, name: name.clone(), base: *base, sort: *sort, category: *category }
    }

    /// How its values are read.
    pub(crate) fn reading(&self) -> Reading {
        Reading::of_type(self.base, self.sort, self.category)
    }
}

/// The numbers of the columns that were altered, added or dropped between the one and the other.
pub(crate) fn altered(before: &[Typed], now: &[Typed]) -> Vec<i16> {
    let differs = |one: &&Typed, others: &[Typed]| !others.contains(one);
    let gone = before.iter().filter(|column| differs(column, now));
    let come = now.iter().filter(|column| differs(column, before));
    let mut numbers: Vec<i16> = gone.chain(come).map(|column| column.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The shapes that a table went through from one to the other, where each column was altered at the id that is given with its
/// number. What is not given was altered before everything else.
pub(crate) fn steps(before: &[Typed], now: &[Typed], mut altered: Vec<(i64, i16)>) -> Vec<Shape> {
    altered.sort_unstable();
    let mut columns = before.to_vec();
    let mut shapes: Vec<Shape> = Vec::new();
    for (since, number) in altered {
        columns.retain(|column| column.number != number);
        columns.extend(now.iter().filter(|column| column.number == number).cloned());
        columns.sort_unstable_by_key(|column| column.number);
        match shapes.last_mut().filter(|last| last.since == since) {
            Some(last) => last.columns = columns.clone(),
            None => shapes.push(Shape { since, columns: columns.clone() }),
        }
    }
    // Whatever the catalogue says of single columns, the last shape is the table's.
    if let Some(last) = shapes.last_mut() {
        last.columns = now.to_vec();
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(number: i16, name: &str, base: u32) -> Typed {
        Typed { number, name: name.to_owned(), base, sort: 'b', category: ' ' }
    }

    #[test]
    fn each_step_has_the_columns_that_were_altered_until_then() {
        let before = [column(1, "id", 20), column(2, "a", 23), column(3, "b", 17)];
        let now = [column(1, "id", 20), column(2, "a", 1700), column(4, "c", 25)];
        assert_eq!(altered(&before, &now), [2, 3, 4]);
        let steps = steps(&before, &now, vec![(20, 4), (10, 2), (20, 3)]);
        let between = vec![column(1, "id", 20), column(2, "a", 1700), column(3, "b", 17)];
        let expected = [Shape { since: 10, columns: between }, Shape { since: 20, columns: now.to_vec() }];
        assert_eq!(steps, expected);
        assert!(altered(&now, &now).is_empty());
    }
}
