//! From messages to what is appended: which columns a row has as it was and as it is. Nothing here touches a database.

use super::message::{Datum, Malformed, Old, Relation, Tuple};

/// A table as the log describes it, with what is known of its columns' types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub relation: Relation,
    /// One for each column.
    pub types: Vec<Known>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The type under its domains.
    pub base: u32,
    pub sort: char,
    pub category: char,
    /// Its name, for casts.
    pub name: String,
}

impl Known {
    /// A type that is not there any more: its values are taken as texts.
    pub(super) fn gone() -> Self {
        Known { base: 25, sort: 'b', category: 'S', name: "text".to_owned() }
    }

    /// Its values are JSON, so that there is a value `null` beside none.
    fn is_document(&self) -> bool {
        [114, 3802].contains(&self.base)
    }
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Happened {
    Insert,
    /// The row as it was is not there; its key is as it was.
    Update,
    /// As much as the identity of the row as it was is there: its key may have been another.
    UpdateOfKey,
    /// All of the row as it was is there.
    UpdateOfFull,
    Delete,
}

/// What is told in one way: which columns are there, by their places, of the row as it was and as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub happened: Happened,
    pub old: Vec<usize>,
    pub new: Vec<usize>,
}

/// A change as it is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub form: Form,
    /// When it committed, in microseconds since 1970.
    pub at: i64,
    pub old: Image,
    pub new: Image,
}

/// The values of the columns that are there, and what its JSON says beside them (see `json::marks`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub values: Vec<Option<String>>,
    pub mark: Option<String>,
}

impl Told {
    /// Roughly how many bytes it occupies.
    pub(super) fn weight(&self) -> usize {
        let image = |image: &Image| {
            image.values.iter().flatten().map(String::len).sum::<usize>() + image.values.len() * 24
        };
        64 + image(&self.old) + image(&self.new)
    }
}

impl Described {
    /// What an inserted row tells.
    pub(super) fn inserted(&self, new: Tuple, at: i64) -> Result<Told, Malformed> {
        let (places, new) = self.image(new, |_| true)?;
        let form = Form { happened: Happened::Insert, old: Vec::new(), new: places };
        Ok(Told { form, at, old: Image::default(), new })
    }

    /// What an updated row tells. A value that was not changed is taken from the row as it was, where that has it.
    pub(super) fn updated(&self, old: Option<Old>, mut new: Tuple, at: i64) -> Result<Told, Malformed> {
        let (happened, places, old) = match old {
            None => (Happened::Update, Vec::new(), Image::default()),
            Some(Old::Key(old)) => {
                self.complete(&mut new, &old, |place| self.relation.columns[place].key)?;
                let (places, old) = self.image(old, |place| self.relation.columns[place].key)?;
                (Happened::UpdateOfKey, places, old)
            }
            Some(Old::Full(old)) => {
                self.complete(&mut new, &old, |_| true)?;
                let (places, old) = self.image(old, |_| true)?;
                (Happened::UpdateOfFull, places, old)
            }
        };
        let (new_places, new) = self.image(new, |_| true)?;
        Ok(Told { form: Form { happened, old: places, new: new_places }, at, old, new })
    }

    /// What a deleted row tells.
    pub(super) fn deleted(&self, old: Old, at: i64) -> Result<Told, Malformed> {
        let (places, old) = match old {
            Old::Key(old) => self.image(old, |place| self.relation.columns[place].key)?,
            Old::Full(old) => self.image(old, |_| true)?,
        };
        let form = Form { happened: Happened::Delete, old: places, new: Vec::new() };
        Ok(Told { form, at, old, new: Image::default() })
    }

    fn complete(&self, new: &mut Tuple, old: &Tuple, has: impl Fn(usize) -> bool) -> Result<(), Malformed> {
        self.refuse_other(old)?;
        self.refuse_other(new)?;
        for (place, (value, was)) in new.iter_mut().zip(old).enumerate() {
            if *value == Datum::Unchanged && has(place) {
                *value = was.clone();
            }
        }
        Ok(())
    }

    fn refuse_other(&self, values: &Tuple) -> Result<(), Malformed> {
        match values.len() == self.relation.columns.len() {
            true => Ok(()),
            false => Err(Malformed("a row has other columns than its table")),
        }
    }

    /// The values that are there, and their places.
    fn image(&self, values: Tuple, has: impl Fn(usize) -> bool) -> Result<(Vec<usize>, Image), Malformed> {
        self.refuse_other(&values)?;
        let (mut places, mut image) = (Vec::new(), Image::default());
        let (mut documents, mut unknown) = (Vec::new(), Vec::new());
        for (place, value) in values.into_iter().enumerate() {
            let name = self.relation.columns[place].name.as_str();
            let value = match value {
                Datum::Unchanged => {
                    unknown.push(name);
                    continue;
                }
                _ if !has(place) => {
                    unknown.push(name);
                    continue;
                }
                Datum::Null => None,
                Datum::Text(text) => Some(text),
            };
            if self.types[place].is_document() && value.as_deref().is_some_and(|text| text.trim() == "null") {
                documents.push(name);
            }
            places.push(place);
            image.values.push(value);
        }
        image.mark = mark(documents, unknown);
        Ok((places, image))
    }
}

/// The list that stands at the end of an image: the columns that have a document `null`, then, behind an empty name, those whose
/// values are not known. `None` when there are none of either.
fn mark<'a>(mut documents: Vec<&'a str>, unknown: Vec<&'a str>) -> Option<String> {
    if !unknown.is_empty() {
        documents.push("");
        documents.extend(unknown);
    }
    match documents.is_empty() {
        true => None,
        false => serde_json::to_string(&documents).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Column;
    use super::*;

    fn described() -> Described {
        let column = |name: &str, key| Column { key, name: name.to_owned(), of: 25, modifier: -1 };
        let columns = vec![column("id", true), column("body", false), column("doc", false)];
        let relation =
            Relation { id: 1, schema: "public".into(), name: "notes".into(), identity: 'd', columns };
        let json = Known { base: 114, ..Known::gone() };
        Described { relation, types: vec![Known::gone(), Known::gone(), json] }
    }

    fn text(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    #[test]
    fn an_unchanged_value_is_taken_from_the_old_row_or_said_to_be_unknown() {
        let new = || vec![text("1"), Datum::Unchanged, text("{}")];
        let without = described().updated(None, new(), 0).unwrap();
        assert_eq!(without.form.new, [0, 2]);
        assert_eq!(without.new.mark.as_deref(), Some(r#"["","body"]"#));
        let old = Old::Full(vec![text("1"), text("long"), Datum::Null]);
        let with = described().updated(Some(old), new(), 0).unwrap();
        assert_eq!((with.new.values, with.new.mark), (some(&["1", "long", "{}"]), None));
        let key = Old::Key(vec![text("0"), Datum::Null, Datum::Null]);
        let by_key = described().updated(Some(key), new(), 0).unwrap();
        assert_eq!(
            (by_key.form.old, by_key.form.new),
            (vec![0], vec![0, 2]),
            "others in a key are null, whatever they were"
        );
    }

    #[test]
    fn a_deleted_row_has_what_its_identity_has() {
        let by_key = described().deleted(Old::Key(vec![text("1"), Datum::Null, Datum::Null]), 0).unwrap();
        assert_eq!((by_key.form.old, by_key.old.values), (vec![0], some(&["1"])));
        assert_eq!(by_key.old.mark.as_deref(), Some(r#"["","body","doc"]"#));
        let full = described().deleted(Old::Full(vec![text("1"), Datum::Null, Datum::Null]), 0).unwrap();
        assert_eq!((full.form.old, full.old.mark), (vec![0, 1, 2], None));
    }

    #[test]
    fn documents_that_are_null_are_marked() {
        let told = described().inserted(vec![text("1"), text("null"), text(" null ")], 0).unwrap();
        assert_eq!(told.new.mark.as_deref(), Some(r#"["doc"]"#));
        assert!(described().inserted(vec![text("1")], 0).is_err());
    }
}
