//! Which columns of its rows a feed delivers.

use seriatim::source::SourceError;
use seriatim::value::Columns;

use super::errors::Names;

/// The columns that images of one shape are delivered with.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub columns: Columns,
    /// Where they are in the image.
    pub places: Vec<usize>,
    /// How many columns the image has.
    pub of: usize,
}

impl Chosen {
    /// The columns at these places, of images with columns of these names.
    pub(super) fn new(names: &[&str], wanted: impl Fn(usize) -> bool) -> Self {
        let places: Vec<usize> = (0..names.len()).filter(|place| wanted(*place)).collect();
        Chosen { columns: Columns::new(places.iter().map(|place| names[*place])), places, of: names.len() }
    }

    /// Whether the image has other columns.
    pub(super) fn is_part(&self) -> bool {
        self.places.len() < self.of
    }
}

/// The places of the columns that are asked for, and of the key's, which are always there; `None` for all.
pub(super) fn places(
    asked: Option<&[String]>,
    key: &[usize],
    columns: &[&str],
    names: &Names,
) -> Result<Option<Vec<usize>>, SourceError> {
    let Some(asked) = asked else { return Ok(None) };
    let place = |wanted: &String| {
        let found = columns.iter().position(|column| column.eq_ignore_ascii_case(wanted));
        found.ok_or_else(|| names.no_such_column(wanted, columns))
    };
    let mut places = asked.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    places.extend(key);
    Ok(Some(places))
}
