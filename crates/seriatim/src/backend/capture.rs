//! What captures can be asked to be, and the methods by which users ask: the same for every database.

use std::time::Duration;

use crate::name::FeedName;

/// Into how many partitions a feed is sliced, unless told otherwise.
const PARTITIONS: u32 = 16;

/// Which capture by triggers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every change, with the row before and after.
    Journal,
    /// The latest state of each key.
    Log,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::Log => "log",
        }
    }

    /// The one that this word stands for.
    pub fn parse(text: &str) -> Option<Self> {
        [Kind::Journal, Kind::Log].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a capture by triggers was asked to be. `N` is what its feed, table and database are called.
#[derive(Clone, Debug)]
pub struct TableSettings<N> {
    /// Which capture it is.
    pub kind: Kind,
    /// What its feed, table and database are called.
    pub names: N,
    /// The key's columns; the primary key when not given.
    pub key: Option<Vec<String>>,
    /// Into how many partitions the feed is sliced.
    pub partitions: u32,
    /// Log: deliver deletes too.
    pub deletes: bool,
    /// Which rows; all when not given.
    pub filter: Option<String>,
    /// Which columns beside the key's; all when not given.
    pub columns: Option<Vec<String>>,
    /// It is meant to begin with the rows that exist.
    pub with_existing: bool,
    /// How often an idle feed looks when nobody wakes it.
    pub every: Duration,
}

impl<N> TableSettings<N> {
    /// As a capture is unless told otherwise; an idle one looks this often.
    pub fn new(kind: Kind, names: N, every: Duration) -> Self {
        TableSettings {
            kind,
            names,
            key: None,
            partitions: PARTITIONS,
            deletes: false,
            filter: None,
            columns: None,
            with_existing: false,
            every,
        }
    }
}

/// What a program's configuration asks of any capture.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The feed's name.
    pub feed: FeedName,
    /// The key's columns; the primary key when not given.
    pub key: Option<Vec<String>>,
    /// Into how many partitions the feed is sliced.
    pub partitions: u32,
    /// Which rows; all when not given.
    pub filter: Option<String>,
    /// Which columns beside the key's; all when not given.
    pub columns: Option<Vec<String>>,
    /// How often an idle feed looks.
    pub every: Duration,
}

/// The methods that every capture has, with the settings at this place in it.
#[doc(hidden)]
#[macro_export]
macro_rules! capture_builder {
    ($capture:ty, $($settings:ident).+, key: $key:literal, partitions: $partitions:literal, filter: $filter:literal, every: $every:literal) => {
        impl $capture {
            /// The feed's name; the table's unless told otherwise.
            pub fn named(mut self, name: $crate::FeedName) -> Self {
                self.$($settings).+.names.feed = name;
                self
            }

            #[doc = concat!("The columns that tell objects apart; the primary key unless told otherwise. ", $key)]
            pub fn key(mut self, columns: Vec<String>) -> Self {
                self.$($settings).+.key = Some(columns);
                self
            }

            #[doc = concat!("Into how many partitions the feed is sliced; ", $partitions, " unless told otherwise.")]
            pub fn partitions(mut self, partitions: u32) -> Self {
                self.$($settings).+.partitions = partitions.max(1);
                self
            }

            #[doc = $filter]
            ///
            /// It is asked when changes are read, so another one can be given at any time. It must be about the row's own columns
            /// alone.
            pub fn filter(mut self, expression: &str) -> Self {
                self.$($settings).+.filter = Some(expression.to_owned());
                self
            }

            /// Only these columns, and those of the key; all unless told otherwise.
            pub fn columns(mut self, columns: Vec<String>) -> Self {
                self.$($settings).+.columns = Some(columns);
                self
            }

            #[doc = concat!("How often an idle feed looks for changes when nobody tells it; every ", $every, " unless told otherwise.")]
            pub fn every(mut self, interval: std::time::Duration) -> Self {
                self.$($settings).+.every = interval;
                self
            }

            /// All that a program's configuration asks of any capture.
            #[doc(hidden)]
            pub fn asked(mut self, asked: $crate::backend::Asked) -> Self {
                let settings = &mut self.$($settings).+;
                settings.names.feed = asked.feed;
                settings.key = asked.key;
                settings.partitions = asked.partitions.max(1);
                settings.filter = asked.filter;
                settings.columns = asked.columns;
                settings.every = asked.every;
                self
            }
        }
    };
}

/// The methods that captures by triggers have.
#[doc(hidden)]
#[macro_export]
macro_rules! table_builder {
    ($capture:ty, $($settings:ident).+, unique: $unique:literal, every: $every:literal) => {
        $crate::capture_builder!(
            $capture,
            $($settings).+,
            key: $unique,
            partitions: "16",
            filter: "Only rows for which this expression on their columns holds, as if the table had no others: a row that \
                     comes to match is an insert, one that matches no more is a delete. A log, which does not know what rows \
                     were, passes over those that do not match, or has a delete of each when it delivers deletes.",
            every: $every
        );

        impl $capture {
            /// A log delivers deletes too. A journal always does.
            pub fn with_deletes(mut self) -> Self {
                self.$($settings).+.deletes = true;
                self
            }
        }
    };
}

/// The methods that windows have.
#[doc(hidden)]
#[macro_export]
macro_rules! window_builder {
    ($capture:ty, $($settings:ident).+, unit: $unit:literal, buffer: $buffer:literal, every: $every:literal) => {
        $crate::capture_builder!(
            $capture,
            $($settings).+,
            key: "A query has to say them.",
            partitions: "one",
            filter: "Only rows for which this expression on their columns holds. One that matches no more is passed over, as \
                     one that is deleted is.",
            every: $every
        );

        impl $capture {
            #[doc = $unit]
            pub fn unit(mut self, unit: $crate::backend::rows::Unit) -> Self {
                self.$($settings).+.unit = Some(unit);
                self
            }

            #[doc = $buffer]
            /// With [`Horizon::Buffer`], how long after its moment a row may be committed.
            pub fn buffer(mut self, buffer: std::time::Duration) -> Self {
                self.$($settings).+.rules.buffer = buffer;
                self
            }

            /// From which age on rows are dropped, and counted; never unless told otherwise.
            pub fn stale_age(mut self, age: $crate::source::window::Age) -> Self {
                self.$($settings).+.rules.stale_age = age;
                self
            }

            /// How many rows one read returns at most; 1,000 unless told otherwise.
            pub fn excessive_count(mut self, count: std::num::NonZeroUsize) -> Self {
                self.$($settings).+.rules.excessive_count = count;
                self
            }

            /// Up to where rows are known to be complete; exact unless told otherwise.
            pub fn horizon(mut self, horizon: Horizon) -> Self {
                self.$($settings).+.horizon = horizon;
                self
            }

            /// The rules as a whole.
            #[doc(hidden)]
            pub fn rules(mut self, rules: $crate::source::window::Rules) -> Self {
                self.$($settings).+.rules = rules;
                self
            }
        }
    };
}
