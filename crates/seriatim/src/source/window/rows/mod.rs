//! What windows over the rows of a database have in common, whatever the database: positions, moments as columns keep them,
//! rows on their way into a slice. Each source adds its own statements and values.

mod mark;
mod moment;
mod packed;
mod place;
mod errors;
mod settings;

pub use errors::FORMS;
pub use mark::Mark;
pub use moment::{NoMoment, TICK_OF_TEXTS, Unit, least_text, of_text, other_form, separator};
pub use packed::PackedRow;
pub use place::{Group, Place, PositionCodec, RowPlace, WindowPosition};
pub use settings::{From, Horizon, Settings};
