//! Triggers for each statement notice that they do not suffice: a statement that is inside of another one on the same table.
//!
//! Its changes are noted before those of the statement around it, though some were made after them. Where both concern one row, this
//! is noted as a doubt: readers stop there, and `seriatim watch` makes triggers for each row (`linked`) from then on.

use super::triggers::{Event, Journal};

/// The `op` of a row that says: a statement inside of another one on this table was noted before it.
pub(super) const INVERTED: char = '!';

/// The `op` of a row that says so of a table that may have such statements by now. A transaction with an old snapshot cannot tell.
pub(super) const PERHAPS_INVERTED: char = '?';

impl Journal<'_> {
    /// The functions that notice it.
    pub(super) fn noticing(&self) -> String {
        let stable = self.function("check", "stable ", &self.check());
        [stable, self.function("inside", "", &self.inside()), self.doubt()].concat()
    }

    /// A stable function sees what there was when its statement began. When the change that this session noted last was not there
    /// yet, somebody has noted changes in the middle of the statement.
    fn check(&self) -> String {
        let (id, ring) = (self.id, self.ring);
        let rows = |of: &str| {
            format!(
                "select {}, {}::text from {} r",
                self.hash_of(&self.keys("r.key")),
                self.texts_now("r.image"),
                self.rows(of)
            )
        };
        let each = |op: &str, rows: &str| {
            format!(
                "when '{op}' then\n            select array_agg(r.lane), array_agg(r.named) into lanes, named from ({rows}) r (lane, named);\n        "
            )
        };
        let both = format!("{} union all {}", rows("old"), rows("new"));
        format!(
            "declare\n    newest bigint;\n    lanes int4[];\n    named text[];\nbegin\n{}    begin\n        \
             newest := currval('seriatim.journal_{id}_id'::regclass);\n    \
             exception when object_not_in_prerequisite_state then\n        return null;\n    end;\n    \
             if exists (select from seriatim.journal_{id}_{ring} j where j.id = newest) then\n        return null;\n    end if;\n    \
             case tg_op\n        {}{}{}end case;\n    \
             perform seriatim.journal_{id}_doubt(coalesce((select j.id from seriatim.journal_{id} j \
             where j.xid = pg_current_xact_id() order by j.id desc limit 1), 0), lanes, named);\n    return null;\nend\n",
            self.guard(),
            each("INSERT", &rows("new")),
            each("UPDATE", &both),
            each("DELETE", &rows("old")),
        )
    }

    /// Notes the doubt, if one row was changed both inside of the statement and by it.
    fn doubt(&self) -> String {
        let id = self.id;
        format!(
            "create or replace function seriatim.journal_{id}_doubt(since bigint, lanes int4[], named text[]) returns void\n\
             language plpgsql set search_path = pg_catalog, pg_temp{} as $seriatim$\n#variable_conflict use_column\nbegin\n    \
             if exists (select from unnest(lanes, named) as r (lane, name) join seriatim.journal_{id} j on j.hash = r.lane\n        \
             where j.xid = pg_current_xact_id() and j.id > since and {}::text = r.name) then\n        {}    end if;\nend\n$seriatim$;\n\
             revoke all on function seriatim.journal_{id}_doubt(bigint, int4[], text[]) from public;\n",
            self.settings(),
            self.texts_now("coalesce(j.after, j.before)"),
            self.doubted(INVERTED)
        )
    }

    /// A statement that a trigger makes, on a table that was not known to have such.
    fn inside(&self) -> String {
        format!(
            "begin\n{}    if seriatim.table_nests({}) then\n        {}    \
             elsif current_setting('transaction_isolation') <> 'read committed' then\n        {}    end if;\n    return null;\nend\n",
            self.guard(),
            self.table.oid,
            self.doubted(INVERTED),
            self.doubted(PERHAPS_INVERTED)
        )
    }

    /// The triggers that notice it.
    pub(super) fn noticing_triggers(&self) -> String {
        let (id, table) = (self.id, self.table.quoted());
        let check = |event: &Event| {
            let name = event.name();
            format!(
                "create trigger \"!seriatim_{id}_check_{name}\" after {name} on {table} {}for each statement \
                 execute function seriatim.journal_{id}_check();\n",
                event.transition()
            )
        };
        let inside = format!(
            "create trigger \"!seriatim_{id}_inside\" before insert or update or delete on {table} for each statement \
             when (pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 0) execute function seriatim.journal_{id}_inside();\n"
        );
        Event::ROWS.iter().map(check).chain([inside]).collect()
    }
}
