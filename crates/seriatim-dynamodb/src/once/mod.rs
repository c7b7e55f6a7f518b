//! The ledger of signals in one DynamoDB table.
//!
//! Each operation is one conditional write, or one consistent read. A condition that fails brings the item along, so that the
//! repetition of a lost answer is recognised without another request.

mod item;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use seriatim::clock;
use seriatim::once::{
    AttemptId, Claim, Completion, Cursor, Held, Ledger, Listing, Page, Record, Resolution, Run, Signal,
    Started, State,
};
use seriatim::store::StoreError;

use crate::address::Address;
use crate::clock::{Now, ServiceClock};
use crate::error::explain;
use crate::item::{Item, number, text};
use crate::table::Table;
use crate::write::{Delete, Update, Written};

/// An item takes 400 KB, of which ids and attributes take a little.
const LARGEST_RESULT: usize = 390 * 1024;

/// All attributes but the result.
const WITHOUT_RESULT: &str = "id, processorId, startedAt, completedAt, expiresOn, attempt, attemptNumber, beat, beatAt, \
                              maxProcessingTime, unknownSince";

const IS_COMPLETED: &str = "attribute_exists(completedAt)";
const IS_RUNNING: &str = "attribute_not_exists(completedAt) AND attribute_not_exists(unknownSince)";
const HAS_EXPIRED: &str = "attribute_exists(completedAt) AND expiresOn <= :second";

/// The ledger of signals in one DynamoDB table.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use seriatim::once::Once;
/// use seriatim_dynamodb::{Address, DynamoDbLedger};
///
/// let ledger = DynamoDbLedger::connect(&Address::from_url("dynamodb://signals?region=eu-west-1")?).await?;
/// let once = Once::new(Arc::new(ledger), "mailer");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DynamoDbLedger {
    client: Client,
    table: String,
    clock: ServiceClock,
    /// The most time, in milliseconds, that any claim asked for here: what a run may take that does not say so.
    longest: Arc<AtomicU64>,
}

impl DynamoDbLedger {
    /// Connects to the table, which has to be there: see [`Table`]. On a server on this machine it is made.
    pub async fn connect(address: &Address) -> Result<Self, StoreError> {
        if address.is_on_this_machine() {
            Table::new(address.client(), address.table()).make().await?;
        }
        DynamoDbLedger::with_client(&address.client(), address.table()).await
    }

    /// The ledger in this table, through a client of one's own, with whatever credentials it has.
    pub async fn with_client(client: &Client, table: &str) -> Result<Self, StoreError> {
        let clock = ServiceClock::default();
        let config = client.config().to_builder().interceptor(clock.clone()).build();
        let client = Client::from_conf(config);
        // The answer brings the service's time with it, before the first claim needs it.
        let described = client.describe_table().table_name(table).send().await;
        described.map_err(|error| explain("looking for", table, error))?;
        Ok(DynamoDbLedger { client, table: table.to_owned(), clock, longest: Arc::default() })
    }

    /// The time in an item; this machine's only where the service does not tell its own, and then only for people to read.
    fn time(&self, now: Option<Now>) -> i64 {
        now.map_or_else(|| clock::wall().as_millisecond(), |now| now.earliest)
    }

    fn expiry(&self, now: Option<Now>, after: Duration) -> i64 {
        let from = now.map_or_else(|| clock::wall().as_millisecond(), |now| now.latest);
        let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        from.saturating_add(after).saturating_add(999).div_euclid(1000)
    }

    /// Sets when the record of a run may be removed.
    fn removable(&self, update: Update, claim: &Claim, now: Option<Now>) -> Update {
        match claim.removable_after() {
            Some(after) => {
                update.set("expiresOn = :removable", ":removable", number(self.expiry(now, after)))
            }
            None => update.remove("expiresOn"),
        }
    }

    /// Marks when a run gave its last sign of life, where that is known.
    fn beat(&self, update: Update, now: Option<Now>) -> Update {
        match now {
            Some(now) => update.set("beatAt = :beat_at", ":beat_at", number(now.latest)),
            None => update.remove("beatAt"),
        }
    }

    fn completed(&self, update: Update, completion: &Completion) -> Update {
        let now = self.clock.now();
        let (attribute, other, result) = item::recorded(&completion.result);
        let update = update
            .set("completedAt = :now", ":now", number(self.time(now)))
            .set(&format!("{attribute} = :result"), ":result", result)
            .remove(other)
            .remove("unknownSince");
        match completion.expires_after {
            Some(after) => update.set("expiresOn = :expires", ":expires", number(self.expiry(now, after))),
            None => update.remove("expiresOn"),
        }
    }

    async fn try_start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Written, StoreError> {
        let now = self.clock.now();
        let limit = i64::try_from(claim.max_processing_time.as_millis()).unwrap_or(i64::MAX);
        self.longest.fetch_max(limit.cast_unsigned(), Ordering::Relaxed);
        let update = Update::of(item::key(&claim.signal))
            .set("startedAt = :now", ":now", number(self.time(now)))
            .set("attempt = :attempt", ":attempt", text(claim.attempt.as_str()))
            .set("attemptNumber = if_not_exists(attemptNumber, :zero) + :one", ":one", number(1))
            .set("beat = :zero", ":zero", number(0))
            .set("maxProcessingTime = :limit", ":limit", number(limit))
            .remove("completedAt")
            .remove("unknownSince")
            .remove("recorded")
            .remove("notKept");
        let update = self.beat(self.removable(update, claim, now), now);
        let expired = format!("attribute_not_exists(id) OR ({HAS_EXPIRED})");
        // Nothing has expired for whoever does not know the time.
        let update = update.value(":second", number(now.map_or(i64::MIN, Now::second)));
        let update = match replacing {
            None => update.only_if(&expired),
            Some(run) => {
                let (as_seen, values) = as_seen(run);
                update.only_if(&format!("{expired} OR ({IS_RUNNING} AND {as_seen})")).values(values)
            }
        };
        self.update("claiming a signal in", update).await
    }

    async fn update(&self, doing: &str, update: Update) -> Result<Written, StoreError> {
        update.send(&self.client, &self.table, doing).await
    }

    async fn delete(&self, doing: &str, delete: Delete) -> Result<Written, StoreError> {
        delete.send(&self.client, &self.table, doing).await
    }

    fn record(&self, item: &Item) -> Result<Record, StoreError> {
        // Who has claimed nothing yet does not know, and takes nothing over.
        let unsaid = match self.longest.load(Ordering::Relaxed) {
            0 => Duration::MAX,
            milliseconds => Duration::from_millis(milliseconds),
        };
        item::record(item, self.clock.now(), unsaid)
    }
}

/// The condition that an item is still about this run, at the same point of its life, and its values.
fn as_seen(run: &Run) -> (String, Vec<(&'static str, AttributeValue)>) {
    let (about, value) = item::is_about(&run.attempt);
    match run.beat {
        // A run that has never given a sign of life may have no beat.
        0 => {
            let condition = format!("{about} AND (attribute_not_exists(beat) OR beat = :seen_beat)");
            (condition, vec![(":seen", value), (":seen_beat", number(0))])
        }
        beat => {
            (format!("{about} AND beat = :seen_beat"), vec![(":seen", value), (":seen_beat", number(beat))])
        }
    }
}

/// Whether a write went through, or the item is already what it would have made of it.
fn held(written: Written, done_before: impl FnOnce(&Item) -> bool) -> bool {
    match written {
        Written::Done(_) => true,
        Written::Refused(item) => item.is_some_and(|item| done_before(&item)),
    }
}

fn is_attempt(item: &Item, attempt: &AttemptId) -> bool {
    item::attempt(item).is_ok_and(|found| found == *attempt)
}

#[async_trait]
impl Ledger for DynamoDbLedger {
    async fn start(&self, claim: &Claim, replacing: Option<&Run>) -> Result<Started, StoreError> {
        // The answer may bring news about the time, by which the completion has expired: then once more.
        for _ in 0..3 {
            let item = match self.try_start(claim, replacing).await? {
                Written::Done(item) => return Ok(Started::Claimed { number: self.record(&item)?.number }),
                Written::Refused(item) => item,
            };
            let Some(record) = item.as_ref().map(|item| self.record(item)).transpose()? else { continue };
            if record.state == State::Running && record.run.attempt == claim.attempt {
                return Ok(Started::Claimed { number: record.number });
            }
            if record.state != State::Expired {
                return Ok(Started::Found(Box::new(record)));
            }
        }
        Err(StoreError::unavailable(
            format!("claiming a signal in the table {}", self.table),
            "it keeps changing",
        ))
    }

    async fn extend(&self, claim: &Claim) -> Result<Held, StoreError> {
        let now = self.clock.now();
        let update = Update::of(item::key(&claim.signal))
            .set("beat = beat + :one", ":one", number(1))
            .remove("unknownSince")
            .only_if("attempt = :attempt AND attribute_not_exists(completedAt)")
            .value(":attempt", text(claim.attempt.as_str()));
        let update = self.beat(self.removable(update, claim, now), now);
        let extended = held(self.update("extending a claim in", update).await?, |_| false);
        Ok(if extended { Held::Kept } else { Held::Lost })
    }

    async fn complete(&self, claim: &Claim, completion: &Completion) -> Result<Held, StoreError> {
        let update = Update::of(item::key(&claim.signal))
            .only_if("attempt = :attempt AND attribute_not_exists(completedAt)")
            .value(":attempt", text(claim.attempt.as_str()));
        let written = self.update("completing a signal in", self.completed(update, completion)).await?;
        let before = |item: &Item| item.contains_key("completedAt") && is_attempt(item, &claim.attempt);
        Ok(if held(written, before) { Held::Kept } else { Held::Lost })
    }

    async fn fail(&self, claim: &Claim) -> Result<(), StoreError> {
        let delete = Delete::of(item::key(&claim.signal))
            .only_if("attempt = :attempt AND attribute_not_exists(completedAt)")
            .value(":attempt", text(claim.attempt.as_str()));
        self.delete("giving a claim back in", delete).await.map(|_| ())
    }

    async fn doubt(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let update = Update::of(item::key(signal))
            .set(
                "unknownSince = if_not_exists(unknownSince, :now)",
                ":now",
                number(self.time(self.clock.now())),
            )
            .remove("expiresOn");
        let (as_seen, values) = as_seen(seen);
        let update =
            update.only_if(&format!("{as_seen} AND attribute_not_exists(completedAt)")).values(values);
        Ok(held(self.update("doubting a run in", update).await?, |_| false))
    }

    async fn resolve(
        &self,
        signal: &Signal,
        seen: &Run,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        let (as_seen, values) = as_seen(seen);
        let as_seen = format!("{as_seen} AND attribute_exists(unknownSince)");
        match resolution {
            Resolution::RunAgain => {
                let delete = Delete::of(item::key(signal)).only_if(&as_seen).values(values);
                let written = self.delete("resolving a run in", delete).await?;
                Ok(!matches!(written, Written::Refused(Some(_))))
            }
            Resolution::Completed(completion) => {
                let update = Update::of(item::key(signal))
                    // By this the repetition of a lost answer is told from the run's own late completion.
                    .set("beat = :resolved", ":resolved", number(seen.beat + 1))
                    .only_if(&as_seen)
                    .values(values);
                let written = self.update("resolving a run in", self.completed(update, completion)).await?;
                let resolved = number(seen.beat + 1);
                Ok(held(written, |item| {
                    item.contains_key("completedAt")
                        && is_attempt(item, &seen.attempt)
                        && item.get("beat") == Some(&resolved)
                }))
            }
        }
    }

    async fn forget(&self, signal: &Signal, seen: &Run) -> Result<bool, StoreError> {
        let (about, value) = item::is_about(&seen.attempt);
        let delete = Delete::of(item::key(signal)).only_if(about).value(":seen", value);
        let written = self.delete("forgetting a signal in", delete).await?;
        Ok(!matches!(written, Written::Refused(Some(_))))
    }

    async fn show(&self, signal: &Signal) -> Result<Option<Record>, StoreError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(item::key(signal)));
        let got = request.consistent_read(true).send().await;
        let got = got.map_err(|error| explain("looking at a signal in", &self.table, error))?;
        got.item.map(|item| self.record(&item)).transpose()
    }

    async fn list(&self, listing: &Listing, from: Option<&Cursor>) -> Result<Page, StoreError> {
        let page = i32::try_from(listing.page).unwrap_or(i32::MAX);
        let mut scan = self.client.scan().table_name(&self.table).consistent_read(true).limit(page);
        scan = scan.projection_expression(WITHOUT_RESULT);
        let second = || number(self.clock.now().map_or(i64::MIN, Now::second));
        let counts = format!("{IS_COMPLETED} AND (attribute_not_exists(expiresOn) OR expiresOn > :second)");
        let state = listing.state.map(|state| match state {
            State::Running => (IS_RUNNING, false),
            State::Completed => (&*counts, true),
            State::Unknown => ("attribute_exists(unknownSince)", false),
            State::Expired => (HAS_EXPIRED, true),
        });
        if state.is_some_and(|(_, by_time)| by_time) {
            scan = scan.expression_attribute_values(":second", second());
        }
        // The store's own items share the table.
        let mut filters = vec!["attribute_exists(startedAt)"];
        filters.extend(state.iter().map(|(filter, _)| *filter));
        if let Some(processor) = &listing.processor {
            scan = scan.expression_attribute_values(":processor", text(processor.as_str()));
            filters.push("processorId = :processor");
        }
        let filter = Some(filters.join(" AND "));
        let from = from.and_then(|cursor| cursor.0.split_once('\n')).map(|(processor, id)| {
            [("processorId".to_owned(), text(processor)), ("id".to_owned(), text(id))].into()
        });
        let scanned = scan.set_filter_expression(filter).set_exclusive_start_key(from).send().await;
        let scanned = scanned.map_err(|error| explain("listing signals in", &self.table, error))?;
        let records = scanned.items.unwrap_or_default();
        let record = |item: &Item| self.record(item).map(|record| Record { result: None, ..record });
        let records = records.iter().map(record).collect::<Result<_, _>>()?;
        let last = scanned.last_evaluated_key.filter(|key| !key.is_empty());
        let last = last.map(|key| item::signal(&key)).transpose()?;
        // Neither name has a control character in it.
        let next = last.map(|signal| Cursor(format!("{}\n{}", signal.processor, signal.id)));
        Ok(Page { records, next })
    }

    async fn sweep(&self, _: usize) -> Result<usize, StoreError> {
        // DynamoDB does it, by `expiresOn`.
        Ok(0)
    }

    fn largest_result(&self) -> usize {
        LARGEST_RESULT
    }
}
