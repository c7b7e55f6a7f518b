//! Reads places with the rows as they are now.

use std::time::Duration;

use seriatim::backend::ChangeHeader;
use seriatim::backend::Packer;
use seriatim::change::Op;
use seriatim::source::{Cursor, Limit, Slice};
use seriatim::value::Key;
use tokio_postgres::Row;

use super::books::{State, Watched, head};
use super::place::{Group, Rows};
use super::{Log, Unnumbered};
use crate::capture::error::Fault;
use crate::capture::image::Images;
use crate::capture::kind::Base;
use crate::capture::registry::time;
use crate::capture::slices::Slices;
use crate::database::Client;

const LOOK: &str = include_str!("../../../queries/log_look.sql");
const SEQUENCE: &str = include_str!("../../../queries/log_sequence.sql");
const LIST: &str = include_str!("../../../queries/log_list.sql");

/// How many existing rows are listed at once, when a consumer that wants them has nothing else to do. Changes wait no longer
/// than it takes to handle so many.
const LISTED_AT_ONCE: i32 = 1000;

/// How long a read that cannot see the end yet pauses before it says so.
const PAUSE: Duration = Duration::from_millis(10);

/// How much is sequenced at once.
const BATCH: i32 = 10_000;

/// Reads on for the cursors that stand furthest behind. `None` when nothing is there but changes that wait for their numbers.
pub(super) async fn read(
    log: &Log,
    base: &Base,
    client: &Client,
    cursors: &[Cursor],
    limit: Limit,
    unnumbered: Unnumbered,
) -> Result<Option<Vec<Slice>>, Fault> {
    let names = &base.settings.names;
    let group = Group::furthest_behind(cursors).map_err(|foreign| names.not_a_position(&foreign))?;
    let Some(group) = group else { return Ok(Some(Vec::new())) };
    let (oid, state, watched) = log.watched(client, base).await?;
    state.refuse_broken(base)?;
    let pass = Pass { base, client, state: &state, watched: &watched, group: &group, limit };
    let Before { mut sequenced, last } = pass.look().await?;
    // Places that are gone may have been the last ones.
    let head = if group.at.number > last { head(client, base, oid).await? } else { last };
    state.refuse_place(base, group.at, head)?;
    // Rows that are listed while changes of theirs wait for a number would come twice.
    if !sequenced && (unnumbered == Unnumbered::GetTheirs || pass.lists() || log.is_unsure()) {
        sequenced = pass.sequence().await?;
    }
    let rows = pass.rows().await?;
    if rows.len() < pass.most() && pass.lists() {
        // Listed now, read by the next call: whoever else changes something meanwhile is not held up.
        pass.list().await?;
        return pass.slices(&rows, last, Seen::Part).map(Some);
    }
    if rows.is_empty() && !sequenced && unnumbered == Unnumbered::AreWaitedFor {
        return Ok(None);
    }
    let seen = if pass.saw_the_end(&rows) && sequenced { Seen::All } else { Seen::Part };
    if sequenced {
        log.is_sure();
    } else if rows.is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    pass.slices(&rows, last, seen).map(Some)
}

/// What a pass knows before it reads.
struct Before {
    /// Everything that was committed has a number.
    sequenced: bool,
    /// Every place up to here is there for whoever looks from now on.
    last: i64,
}

/// Whether the read saw the end of what was committed when it began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    All,
    Part,
}

/// One pass over the places.
struct Pass<'a> {
    base: &'a Base,
    client: &'a Client,
    state: &'a State,
    watched: &'a Watched,
    group: &'a Group,
    limit: Limit,
}

impl Pass<'_> {
    fn most(&self) -> usize {
        self.limit.rows.clamp(1, i32::MAX as usize)
    }

    /// Whether rows remain to be listed for this group.
    fn lists(&self) -> bool {
        self.state.listing && self.group.at.rows != Rows::PassedOver && self.group.upto == i64::MAX
    }

    /// Whether nothing lies beyond these rows.
    fn saw_the_end(&self, rows: &[Row]) -> bool {
        rows.len() < self.most() && self.group.upto == i64::MAX && !self.lists()
    }

    /// Looks how far the log is.
    async fn look(&self) -> Result<Before, Fault> {
        let look = self.base.database.sql(LOOK).replace("LOG", &self.state.name);
        let statement = self.client.prepare_cached(&look).await?;
        let row = self.client.query_one(&statement, &[]).await?;
        let (waiting, last): (i64, i64) = (row.get(0), row.get(1));
        Ok(Before { sequenced: waiting == 0, last })
    }

    /// Gives numbers to what is committed and has none. Says whether all that was committed before has one now.
    async fn sequence(&self) -> Result<bool, Fault> {
        let sql = self.base.database.sql(SEQUENCE);
        let statement = self.client.prepare_cached(&sql).await?;
        let given: Option<i64> = self.client.query_one(&statement, &[&self.state.id, &BATCH]).await?.get(0);
        Ok(given.is_some_and(|given| given < i64::from(BATCH)))
    }

    async fn rows(&self) -> Result<Vec<Row>, Fault> {
        let statement = self.client.prepare_cached(&self.watched.read).await?;
        let (after, upto) = (self.group.at.number, self.group.upto);
        let listed = self.group.at.rows != Rows::PassedOver;
        let most = i64::try_from(self.most()).unwrap_or(i64::MAX);
        Ok(self.client.query(&statement, &[&after, &upto, &listed, &most]).await?)
    }

    async fn list(&self) -> Result<(), Fault> {
        let sql = self.base.database.sql(LIST);
        self.client.query_one(&*sql, &[&self.watched.table.oid, &LISTED_AT_ONCE]).await?;
        Ok(())
    }

    fn slices(&self, rows: &[Row], last: i64, seen: Seen) -> Result<Vec<Slice>, Fault> {
        let settings = &self.base.settings;
        let chosen =
            self.watched.table.chosen(settings.columns.as_deref(), &self.state.key, &settings.names)?;
        let mut images = self.watched.images(self.state).choosing(chosen);
        let mut slices = Slices::new(
            &settings.names.feed,
            settings.partitions,
            &images.key_columns.clone(),
            &self.group.members,
            self.limit,
        );
        let mut upto = self.group.at.number;
        let mut cut = false;
        for row in rows {
            if slices.full() {
                cut = true;
                break;
            }
            upto = row.get(0);
            self.add(row, upto, &mut images, &mut slices)?;
        }
        if !cut && rows.len() < self.most() {
            // Places that nobody here wants are passed too. Where another cursor stands, everything before it was there.
            upto = if self.group.upto < i64::MAX { self.group.upto } else { upto.max(last) };
        }
        let place = self.state.place(upto, self.group.at.rows);
        Ok(slices.upto(&place.position(), seen == Seen::All && !cut))
    }

    fn add(&self, row: &Row, number: i64, images: &mut Images, slices: &mut Slices) -> Result<(), Fault> {
        let (at, json, exists): (i64, &str, bool) = (row.get(1), row.get(2), row.get(3));
        if row.get(4) {
            // A row that is hidden would be taken for one that is gone.
            return Err(self.base.settings.names.rows_hidden_from_log().into());
        }
        // What a row was before is not known here. So one for which the filter does not hold is treated as one that is gone: whoever
        // has it from before is to forget it.
        let exists = exists && row.get::<_, bool>(5);
        if !exists && !self.base.settings.deletes {
            return Ok(());
        }
        let unreadable = || self.base.settings.names.unreadable("a row");
        let (mut image_packer, mut key) = (Packer::default(), Packer::default());
        let image = images.pack(json, &mut image_packer).ok_or_else(unreadable)?;
        images.pack_key(&image, &image_packer, &mut key).ok_or_else(unreadable)?;
        let place = self.state.place(number, self.group.at.rows);
        let op = if exists { Op::Upsert } else { Op::Delete };
        let happened = ChangeHeader { position: place.position(), id: number as u64, op, at: time(at) };
        let mut room = Packer::default();
        let after = exists.then(|| images.delivered(&image, &image_packer, &mut room));
        slices.add(hash_of(key.since(0)), happened, key.since(0), None, after);
        Ok(())
    }
}

/// What decides on a key's partition: it never changes.
pub(super) fn hash_of(key: &[u8]) -> i32 {
    positive(Key::hash_of(key))
}

/// As much of a key's hash as counts.
pub(super) fn positive(hash: u64) -> i32 {
    (hash & 0x7fff_ffff) as i32
}
