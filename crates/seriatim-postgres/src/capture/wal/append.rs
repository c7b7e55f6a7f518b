//! The SQL that appends changes to a journal. Nothing here touches a database.
//!
//! Values come as texts, as their types write them. The server makes values of them again and rows of those, and writes their JSON as
//! it does for triggers: so both captures have the same images.

use super::super::journal::{canonical, hash_of};
use super::super::names::{literal, quoted};
use super::super::registry;
use super::rows::{Described, Form, Happened, Told};

/// The `op` of a row that says: the log did not carry a row as it was, though it was to.
pub(in super::super) const WITHOUT_OLD: char = '-';

/// A journal that is appended to.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    pub id: i64,
    /// The watched table.
    pub relation: u32,
    /// The table of the ring that is written to.
    pub ring: i16,
    pub known: registry::Known,
    /// The names of the key's columns now.
    pub names: Vec<String>,
}

/// The parameters of a statement that appends.
pub(super) struct Parameters<'a> {
    pub at: Vec<i64>,
    /// For each column of the old rows, then their marks, then the same of the new ones.
    pub texts: Vec<Vec<Option<&'a str>>>,
}

impl<'a> Parameters<'a> {
    /// Those of changes that are told in one way.
    pub(super) fn of(told: &'a [Told]) -> Self {
        let form = told.first().map(|told| &told.form);
        let (old, new) = form.map_or((0, 0), |form| (form.old.len(), form.new.len()));
        let column = |of: fn(&Told) -> &super::rows::Image, at: usize| {
            told.iter().map(|told| of(told).values.get(at).and_then(Option::as_deref)).collect::<Vec<_>>()
        };
        let marks = |of: fn(&Told) -> &super::rows::Image| {
            told.iter().map(|told| of(told).mark.as_deref()).collect::<Vec<_>>()
        };
        let mut texts: Vec<_> = (0..old).map(|at| column(|told| &told.old, at)).collect();
        texts.push(marks(|told| &told.old));
        texts.extend((0..new).map(|at| column(|told| &told.new, at)));
        texts.push(marks(|told| &told.new));
        Parameters { at: told.iter().map(|told| told.at).collect(), texts }
    }
}

impl Journal {
    /// Whether changes of this form have less of the row as it was than those of this journal are to have.
    pub(super) fn lacks_old(&self, described: &Described, form: &Form) -> bool {
        let whole = form.old.len() == described.relation.columns.len();
        self.known.full && form.happened != Happened::Insert && !whole
    }

    /// The statement that appends changes of this form; `None` when the key's columns are not in them.
    pub(super) fn append(&self, described: &Described, form: &Form) -> Option<String> {
        let (id, ring) = (self.id, self.ring);
        let columns = form.old.len() + form.new.len() + 2;
        let arrays: Vec<String> = (0..columns).map(|at| format!("${}::text[]", at + 2)).collect();
        let old = form.old.iter().map(|place| format!("o{place}")).chain(["om".to_owned()]);
        let new = form.new.iter().map(|place| format!("n{place}")).chain(["nm".to_owned()]);
        let names: Vec<String> = old.chain(new).collect();
        Some(format!(
            "insert into seriatim.journal_{id}_{ring} (id, op, at, hash, before, after)\n\
             select nextval('seriatim.journal_{id}_id'::regclass), s.op, s.at, s.hash, s.before, s.after from (\n\
             select x.op, p.at, x.hash, x.before, x.after from (\n\
             select u.place, timestamptz 'epoch' + u.at * interval '1 microsecond' as at, {} as before, {} as after\n\
             from unnest($1::int8[], {}) with ordinality u (at, {}, place) offset 0) p\n\
             cross join lateral ({}) x order by p.place, x.step) s",
            image(described, 'o', &form.old),
            image(described, 'n', &form.new),
            arrays.join(", "),
            names.join(", "),
            self.steps(described, form)?
        ))
    }

    /// What a change becomes. One that gives a row another key is two: the old object is gone, and there is a new one.
    fn steps(&self, described: &Described, form: &Form) -> Option<String> {
        let keys = |image: &str, places: &[usize]| self.keys(described, image, places);
        let one = |step: u8, op: char, [hash, before, after]: [&str; 3]| {
            format!(
                "select {step} as step, '{op}'::\"char\" as op, {hash} as hash, {before} as before, {after} as after"
            )
        };
        let none = "null::json";
        Some(match form.happened {
            Happened::Insert => one(1, 'i', [&hash_of(&keys("p.after", &form.new)?), none, "p.after"]),
            Happened::Update => one(1, 'u', [&hash_of(&keys("p.after", &form.new)?), none, "p.after"]),
            Happened::Delete => one(1, 'd', [&hash_of(&keys("p.before", &form.old)?), "p.before", none]),
            Happened::UpdateOfKey | Happened::UpdateOfFull => {
                let (was, is) = (keys("p.before", &form.old)?, keys("p.after", &form.new)?);
                let before = if form.happened == Happened::UpdateOfFull { "p.before" } else { none };
                let (was_row, is_row) = (was.join(", "), is.join(", "));
                let (was, is) = (hash_of(&was), hash_of(&is));
                format!(
                    "{} where row({was_row}) is not distinct from row({is_row}) union all {} where row({was_row}) is distinct from row({is_row}) \
                     union all {} where row({was_row}) is distinct from row({is_row})",
                    one(1, 'u', [&is, before, "p.after"]),
                    one(1, 'd', [&was, "p.before", none]),
                    one(2, 'i', [&is, none, "p.after"]),
                )
            }
        })
    }

    /// The key of an image, as texts that are equal for equal keys. A column is found by any name that it has or had.
    fn keys(&self, described: &Described, image: &str, places: &[usize]) -> Option<Vec<String>> {
        let key = self.names.iter().zip(&self.known.key_names).zip(&self.known.key_types);
        key.map(|((now, had), of)| {
            let names = std::iter::once(now).chain(had);
            let has =
                |name: &&String| places.iter().any(|place| described.relation.columns[*place].name == **name);
            let name = names.into_iter().find(has)?;
            Some(canonical(&format!("({image} ->> {})", literal(name)), *of))
        })
        .collect()
    }

    /// The statement that notes something about all rows; its parameter is when.
    pub(super) fn note(&self, op: char) -> String {
        let (id, ring) = (self.id, self.ring);
        format!(
            "insert into seriatim.journal_{id}_{ring} (id, op, at) values \
             (nextval('seriatim.journal_{id}_id'::regclass), '{op}', timestamptz 'epoch' + $1::int8 * interval '1 microsecond')"
        )
    }
}

/// The JSON of a row, from the texts of its values.
fn image(described: &Described, side: char, places: &[usize]) -> String {
    if places.is_empty() {
        return "null::json".to_owned();
    }
    let column = |place: &usize| {
        let (of, name) = (&described.types[*place].name, &described.relation.columns[*place].name);
        format!("u.{side}{place}::{of} as {}", quoted(name))
    };
    let columns: Vec<String> = places.iter().map(column).collect();
    format!(
        "(select case when u.{side}m is null then row_to_json(r.*) else (left(row_to_json(r.*)::text, -1) || ',\"\":' || u.{side}m || '}}')::json end \
         from (select {}) r)",
        columns.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::message::{Column, Datum, Old, Relation};
    use super::super::rows::Known;
    use super::*;

    fn described() -> Described {
        let column = |name: &str, key| Column { key, name: name.to_owned(), of: 25, modifier: -1 };
        let columns = vec![column("id", true), column("a\"b", false)];
        let relation = Relation { id: 1, schema: "public".into(), name: "t".into(), identity: 'd', columns };
        Described { relation, types: vec![Known::gone(), Known::gone()] }
    }

    fn journal(name: &str) -> Journal {
        let known = registry::Known {
            key_names: vec![vec![name.to_owned(), "id".to_owned()]],
            key_types: vec![20],
            ..registry::Known::default()
        };
        Journal { id: 7, relation: 1, ring: 2, known, names: vec![name.to_owned()] }
    }

    #[test]
    fn a_key_is_found_by_the_name_that_it_had() {
        let told = described().inserted(vec![Datum::Text("1".into()), Datum::Null], 5).unwrap();
        let sql = journal("number").append(&described(), &told.form).unwrap();
        assert!(sql.contains("(p.after ->> 'id')"), "{sql}");
        assert!(sql.contains("insert into seriatim.journal_7_2") && sql.contains("as \"a\"\"b\""), "{sql}");
        let other = registry::Known { key_names: vec![vec!["x".into()]], ..journal("x").known };
        let lost = Journal { known: other, ..journal("x") };
        assert_eq!(lost.append(&described(), &told.form), None);
    }

    #[test]
    fn there_is_a_parameter_for_each_column_that_is_there_and_for_each_mark() {
        let old = Old::Key(vec![Datum::Text("1".into()), Datum::Null]);
        let told =
            [described().updated(Some(old), vec![Datum::Text("2".into()), Datum::Unchanged], 5).unwrap()];
        let parameters = Parameters::of(&told);
        let expected: Vec<Vec<Option<&str>>> = vec![
            vec![Some("1")],
            vec![Some(r#"["","a\"b"]"#)],
            vec![Some("2")],
            vec![Some(r#"["","a\"b"]"#)],
        ];
        assert_eq!((parameters.at, parameters.texts), (vec![5], expected));
    }
}
