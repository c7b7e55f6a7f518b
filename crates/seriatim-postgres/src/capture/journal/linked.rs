//! Changes that are noted row by row, for tables whose statements can be inside of each other.
//!
//! PostgreSQL runs the triggers of a statement when the statement is over. A statement that was inside of it (by a user's trigger,
//! the action of a foreign key or a function) is over before, so its changes are noted first although some were made last. Triggers
//! for each row know more than the images: the version of the row that was replaced and the one that replaced it, and whether that
//! has been replaced already. From these, `order.sql` puts the changes of a row right as soon as one is noted too late.
//!
//! Two signs say that this may be needed: the new version of a row is replaced or locked already (`xmax`), or a key becomes free
//! and something else than its last version was noted last. Without them a change is noted with one insert.

use super::super::names::literal;
use super::rows::canonical;
use super::triggers::{Event, Journal};

const ORDER: &str = include_str!("../../../sql/journal/order.sql");
const TRANSIENT: &str = include_str!("../../../sql/journal/transient.sql");

impl Journal<'_> {
    /// The function that puts the changes of a row into their order.
    pub(super) fn order(&self) -> String {
        let files = match self.table.partitioned {
            true => format!(
                "select pg_relation_filenode(t.relid) from pg_partition_tree({}::regclass) t",
                self.table.oid
            ),
            false => format!("select pg_relation_filenode({}::regclass)", self.table.oid),
        };
        let transient = if self.known.deferrable { self.transient() } else { String::new() };
        ORDER
            .replace("{settings}", self.settings())
            .replace("{keys}", &self.texts_now("coalesce(j.after, j.before)"))
            .replace("{files}", &files)
            .replace("{transient}", &transient)
            .replace("journal_N", &format!("journal_{}", self.id))
    }

    fn transient(&self) -> String {
        let same = self.related().enumerate().map(|(at, (_, of))| {
            let value = canonical("(pg_catalog.to_json(x.%I) #>> ''{}'')", of).replace('\'', "''");
            format!("{} = $1[{}]", value.replace("''''", "''"), at + 1)
        });
        let names = self.related().map(|(number, _)| format!(", {}", self.column_now(number)));
        TRANSIENT
            .replace("{same}", &same.collect::<Vec<_>>().join(" and "))
            .replace("{oid}", &self.table.oid.to_string())
            .replace("{names}", &names.collect::<String>())
    }

    /// What a trigger for each row does.
    pub(super) fn linked_body(&self, event: Event) -> String {
        let (rows, does): (&[&str], String) = match event {
            Event::Insert => (&["new"], self.enter("i")),
            Event::Delete => (&["old"], self.leave()),
            _ => (&["old", "new"], self.change()),
        };
        let declared: String = rows.iter().map(|row| self.side(row)).collect();
        let documents: String = rows.iter().map(|row| self.documents(row)).collect();
        format!(
            "declare\n    names text[] := {};\n    file oid := pg_relation_filenode(tg_relid);\n    last_id bigint;\n    last_part oid;\n    \
             last_at tid;\n{declared}begin\n{}{documents}{does}    return null;\nend\n",
            self.names_now(),
            self.guard()
        )
    }

    /// Changes of other tables are not noted, whoever has put the trigger there.
    pub(super) fn guard(&self) -> String {
        let oid = self.table.oid;
        let ours = match self.table.partitioned {
            true => {
                let known: Vec<String> =
                    self.table.partitions.iter().map(|partition| partition.oid.to_string()).collect();
                format!(
                    "tg_relid = any (array[{oid}{}]::oid[]) or coalesce(pg_partition_root(tg_relid) = {oid}, false)",
                    known.iter().map(|oid| format!(", {oid}")).collect::<String>()
                )
            }
            false => format!("tg_relid = {oid}"),
        };
        format!("    if not ({ours}) then\n        return null;\n    end if;\n")
    }

    /// The image of a row, the texts that tell it apart, and the hash of its key.
    fn side(&self, row: &str) -> String {
        let keys: Vec<String> = (1..=self.key.len()).map(|at| format!("{row}_keys[{at}]")).collect();
        format!(
            "    {row}_image json := row_to_json({row}.*);\n    {row}_keys text[] := {};\n    {row}_lane int4 := {};\n",
            self.texts(&format!("{row}_image"), "names"),
            self.hash_of(&keys)
        )
    }

    /// Has an image say which of its nulls are documents.
    fn documents(&self, row: &str) -> String {
        format!(
            "    if strpos({row}_image::text, 'null') > 0 then\n        {row}_image := \
             seriatim.with_null_documents({row}_image, {row}, seriatim.documents_now({}));\n    end if;\n",
            self.table.oid
        )
    }

    /// Notes a row that came to its key, or that kept it.
    fn enter(&self, op: &str) -> String {
        let (before, old_at) = if op == "u" { ("old_image", "old.ctid") } else { ("null", "null") };
        format!(
            "{}    if new.xmax <> '0'::xid then\n        perform seriatim.journal_{}_order(new_lane, new_keys, file, new.ctid);\n    end if;\n",
            self.noted(op, "new_lane", [before, "new_image", old_at, "new.ctid"]),
            self.id
        )
    }

    /// Notes a row that is gone, or gone to another key.
    fn leave(&self) -> String {
        self.checked(&self.noted("d", "old_lane", ["old_image", "null", "old.ctid", "null"]))
    }

    /// Notes a change of a row as it is at that moment; what was noted last must be its latest version, or the order is looked at.
    fn checked(&self, noted: &str) -> String {
        if self.table.identity().is_none() {
            // Rows that cannot be told apart: none stands for another.
            return noted.to_owned();
        }
        let id = self.id;
        format!(
            "    select j.id, j.part, j.new_at into last_id, last_part, last_at from seriatim.journal_{id} j\n    \
             where j.xid = pg_current_xact_id() and j.hash = old_lane order by j.id desc limit 1;\n{noted}    \
             if last_id is not null and (last_part is distinct from file or last_at is distinct from old.ctid{}) then\n        \
             perform seriatim.journal_{id}_order(old_lane, old_keys, null, null);\n    end if;\n",
            if self.known.deferrable { " or true" } else { "" }
        )
    }

    fn change(&self) -> String {
        let (id, key) = (self.id, self.key.len());
        let kept = match self.known.deferrable {
            true => self.checked(&self.enter("u")),
            false => self.enter("u"),
        };
        let same = format!("old_keys[1:{key}] = new_keys[1:{key}]");
        // A row that gets another name under the key of its object: only its versions tell what comes first.
        let renamed = match self.related().count() > key {
            true => format!(
                "        if old_keys <> new_keys and (new.xmax <> '0'::xid or exists (select from seriatim.journal_{id} j\n            \
                 where j.xid = pg_current_xact_id() and j.hash = old_lane and {} in (old_keys, new_keys)\n            \
                 and j.new_at is distinct from old.ctid)) then\n            {}        end if;\n",
                self.texts("j.after", "names"),
                self.doubted('!')
            ),
            false => String::new(),
        };
        format!(
            "    if {same} then\n{renamed}{kept}    else\n{}{}    end if;\n",
            self.leave(),
            self.enter("i")
        )
    }

    /// One row of the journal.
    fn noted(&self, op: &str, lane: &str, [before, after, old_at, new_at]: [&str; 4]) -> String {
        format!(
            "    insert into seriatim.journal_{}_{} (id, xid, op, at, hash, before, after, part, old_at, new_at)\n    \
             values ({}, pg_current_xact_id(), '{op}', clock_timestamp(), {lane}, {before}, {after}, file, {old_at}, {new_at});\n",
            self.id,
            self.ring,
            self.next()
        )
    }

    /// The columns that tell rows apart: those of the key, and those that name a row; with their types.
    pub(super) fn related(&self) -> impl Iterator<Item = (i16, u32)> {
        let named = self.known.identity.iter().filter(|number| !self.key.contains(number));
        let of = |number: i16| self.table.column(number).map_or(0, |column| column.base);
        self.key.iter().chain(named).map(move |number| (*number, of(*number)))
    }

    fn column_now(&self, number: i16) -> String {
        format!("seriatim.column_name_now({}, {number}::int2)", self.table.oid)
    }

    fn names_now(&self) -> String {
        let names: Vec<String> = self.related().map(|(number, _)| self.column_now(number)).collect();
        format!("array[{}]", names.join(", "))
    }

    /// The texts of an image that tell its row apart, by the names that its columns have.
    fn texts(&self, image: &str, names: &str) -> String {
        let text = |(at, (number, of)): (usize, (i16, u32))| {
            let name = match names {
                "names" => format!("names[{}]", at + 1),
                _ => self.column_now(number),
            };
            canonical(&format!("({image} ->> {name})"), of)
        };
        let texts: Vec<String> = self.related().enumerate().map(text).collect();
        format!("array[{}]", texts.join(", "))
    }

    /// The same, for functions that have not looked the names up.
    pub(super) fn texts_now(&self, image: &str) -> String {
        self.texts(image, "now")
    }

    /// Notes what concerns no row: a TRUNCATE, or the doubt that the order of changes is not known.
    pub(super) fn doubted(&self, op: char) -> String {
        format!(
            "insert into seriatim.journal_{}_{} (id, op) values ({}, {});\n",
            self.id,
            self.ring,
            self.next(),
            literal(&op.to_string())
        )
    }
}
