//! What a trigger sees of the rows that its statement wrote: their images, and their keys as text.
//!
//! A key is taken out of the image by the name that its column has at that moment. Most are had without reading the image: the
//! column is named, together with a stand-in that the name means where the column has another name by now, since a trigger must
//! never be the reason that a writer fails.

use super::super::names::{literal, quoted};
use super::triggers::Journal;

/// The types (int8, int2, int4, text, varchar, uuid) whose text needs no image; `seriatim.json_text` has a version for each.
const PLAIN: [u32; 6] = [20, 21, 23, 25, 1043, 2950];

impl Journal<'_> {
    /// The rows of a transition table as `image` and `key_1`, `key_2`, ….
    pub(super) fn rows(&self, of: &str) -> String {
        self.select("r.*", &format!("{} r", self.images(of, "")))
    }

    /// The row before and after, of a statement that changed one; nothing for any other.
    pub(super) fn only_pair(&self) -> String {
        let (old, new) = (self.images("old", ""), self.images("new", ""));
        let only = "not exists (select from new_rows offset 1)";
        self.select(&self.both(), &format!("{old} o cross join lateral {new} n where {only}"))
    }

    /// Old and new rows stand in the same order.
    ///
    /// A full join is the only one that is safe from being done row by row for many rows, with a plan that was kept from few.
    pub(super) fn pairs(&self) -> String {
        let numbered = |of| self.images(of, "pg_catalog.row_number() over () as at, ");
        let (old, new) = (numbered("old"), numbered("new"));
        let joined = format!("{old} o full join {new} n on n.at operator(pg_catalog.=) o.at");
        self.select("p.*", &format!("(select {} from {joined} offset 0) p", self.both()))
    }

    /// The keys of a pair are the same.
    pub(super) fn same_key(&self, same: bool) -> String {
        let side = |side: &str| format!("row({})", self.keys(&format!("p.{side}")).join(", "));
        let is = if same { "is not distinct from" } else { "is distinct from" };
        format!("{} {is} {}", side("before"), side("after"))
    }

    /// The keys that a source has under these names: `r.key`, `p.before`, `p.after`.
    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        (1..=self.key.len()).map(|at| format!("{prefix}_{at}")).collect()
    }

    /// A number that is the same for equal keys and never negative.
    pub(super) fn hash_of(&self, keys: &[String]) -> String {
        hash_of(keys)
    }

    /// The same number for a row's image.
    pub(super) fn hash(&self, image: &str) -> String {
        self.hash_of(&self.keys_in(image))
    }

    /// The key of an image, as texts that are equal for equal keys.
    fn keys_in(&self, image: &str) -> Vec<String> {
        let value = |(number, of): (&i16, &u32)| {
            canonical(&format!("({image} operator(pg_catalog.->>) {})", self.column_name(*number)), *of)
        };
        self.key.iter().zip(&self.known.key_types).map(value).collect()
    }

    /// The columns of a pair.
    fn both(&self) -> String {
        let side = |row: &str, name: &str| {
            let keys = (1..=self.key.len()).map(|at| format!("{row}.key_{at} as {name}_{at}"));
            [format!("{row}.image as {name}")].into_iter().chain(keys).collect::<Vec<_>>().join(", ")
        };
        format!("{}, {}", side("o", "before"), side("n", "after"))
    }

    fn images(&self, of: &str, more: &str) -> String {
        let named = |keys: Vec<String>| {
            keys.iter().enumerate().map(|(at, key)| format!(", {key} as key_{}", at + 1)).collect::<String>()
        };
        let (whole, image) = ("pg_catalog.row_to_json(r.*)", self.image("r.*"));
        if self.names_columns() {
            let keys = named(
                self.keys_in(whole).into_iter().enumerate().map(|(at, key)| self.named(at, &key)).collect(),
            );
            return format!("(select {more}{image} as image{keys} from {of}_rows r)");
        }
        let image = format!("select {more}{image} as image from {of}_rows r");
        // What is behind an offset is worked out once.
        format!("(select i.*{} from ({image} offset 0) i)", named(self.keys_in("i.image")))
    }

    /// The image of a row. Where the table has no documents, PostgreSQL finds so when it plans the statement.
    fn image(&self, row: &str) -> String {
        let documents = format!("seriatim.documents({})", self.table.oid);
        let image = format!("pg_catalog.row_to_json({row})");
        format!(
            "case when {documents} is null then {image} else seriatim.with_null_documents({image}, {row}, {documents}) end"
        )
    }

    /// A column of the key by its name, as long as it has that name.
    fn named(&self, at: usize, otherwise: &str) -> String {
        let name = &self.known.key_names[at][0];
        format!(
            "case when {} operator(pg_catalog.=) {} then seriatim.json_text({}) else {otherwise} end",
            self.column_name(self.key[at]),
            literal(name),
            quoted(name)
        )
    }

    /// Selects from rows, beside what the names of the key's columns mean where there are no such columns any more.
    fn select(&self, columns: &str, from: &str) -> String {
        if !self.names_columns() {
            return format!("(select {columns} from {from})");
        }
        let stand_in = |names: &Vec<String>| format!("null::pg_catalog.text as {}", quoted(&names[0]));
        let stand_ins: Vec<_> = self.known.key_names.iter().map(stand_in).collect();
        format!("(select {columns} from (select {}) absent cross join lateral {from})", stand_ins.join(", "))
    }

    /// Whether all columns of the key have plain types and names that are safe wherever they stand.
    fn names_columns(&self) -> bool {
        let plain = |name: &String| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        self.known.key_types.iter().all(|of| PLAIN.contains(of))
            && self.known.key_names.iter().all(|names| plain(&names[0]))
    }

    fn column_name(&self, number: i16) -> String {
        let now = match self.table.partitioned {
            // Rows of a partition come with no sign of the table that they are a part of: nothing would tell a plan to be made anew.
            true => "column_name_now",
            false => "column_name",
        };
        format!("seriatim.{now}({}, {number}::pg_catalog.int2)", self.table.oid)
    }
}

/// A number that is the same for equal keys, given as texts, and never negative.
pub(in super::super) fn hash_of(keys: &[String]) -> String {
    let each =
        |seed: String, value: &String| format!("coalesce(pg_catalog.hashtextextended({value}, {seed}), 1)");
    let hash = keys.iter().fold("0".to_owned(), each);
    format!("({hash} operator(pg_catalog.&) 2147483647)::pg_catalog.int4")
}

/// A value's text as it is for all equal values of its type.
pub(in super::super) fn canonical(text: &str, of: u32) -> String {
    match of {
        17 => format!("pg_catalog.encode({text}::pg_catalog.bytea, 'hex')"),
        700 | 701 => format!("({text}::pg_catalog.float8 operator(pg_catalog.+) 0)::pg_catalog.text"),
        1184 => format!("pg_catalog.date_part('epoch', {text}::pg_catalog.timestamptz)::pg_catalog.text"),
        1700 => format!("pg_catalog.trim_scale({text}::pg_catalog.numeric)::pg_catalog.text"),
        _ => text.to_owned(),
    }
}
