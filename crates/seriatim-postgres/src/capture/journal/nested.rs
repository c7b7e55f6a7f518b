//! Writes inside of writes: a user's trigger that writes to the same table while a statement on it is not over.
//!
//! Such a statement ends before the one that it is inside of, so its rows would be noted first, though they were written last.
//! Therefore the start of each statement is noted (a setting that ends with the transaction, and goes back with a savepoint).
//! What a row's trigger wrote after the rows waits in a table of its own until the outermost statement has noted its rows; what
//! one wrote before them (a `before` trigger) is noted at once.

//!
//! Triggers that are not prepared for this note their doubt where it happens to them ([`doubt`]), and readers go no further.

use super::triggers::{Event, Journal, Target};

/// The `op` of a row that says: a statement inside of another one on this table was noted before it.
pub(super) const INVERTED: char = '!';

/// The `op` of a row that says so of a table that may have such statements by now. A transaction with an old snapshot cannot tell.
pub(super) const PERHAPS_INVERTED: char = '?';

/// What is done first where no such trigger was known of.
pub(super) fn doubt(journal: &Journal<'_>, direct: &Target<'_>) -> String {
    let (table, next, oid) = (&direct.table, journal.next(), journal.table.oid);
    let note = |op| format!("insert into {table} (id, op) values ({next}, '{op}')");
    format!(
        "    if pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 1 then\n        \
         if seriatim.table_nests({oid}) then\n            {};\n        \
         elsif pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>) 'read committed' then\n            {};\n        \
         end if;\n    end if;\n",
        note(INVERTED),
        note(PERHAPS_INVERTED)
    )
}

/// The functions around a statement.
pub(super) fn functions(journal: &Journal<'_>) -> String {
    let setting = setting(journal);
    let read = format!(
        "    statements pg_catalog.int4[] := coalesce(nullif(pg_catalog.current_setting('{setting}', true), ''), '{{0}}')::pg_catalog.int4[];\n"
    );
    let write =
        format!("    perform pg_catalog.set_config('{setting}', statements::pg_catalog.text, true);\n");
    // The first number counts statements; then two for each that is open: its own, and whether its rows are written.
    let before = format!(
        "declare\n{read}begin\n    statements[1] := statements[1] operator(pg_catalog.+) 1;\n    \
         statements := statements operator(pg_catalog.||) array[statements[1], 0];\n{write}    return null;\nend\n"
    );
    let phase = format!(
        "declare\n{read}    places pg_catalog.int4 := pg_catalog.cardinality(statements);\nbegin\n    \
         if statements[places] operator(pg_catalog.=) 0 and places operator(pg_catalog.>) 2 then\n        statements[places] := 1;\n    {write}    end if;\n    return null;\nend\n"
    );
    journal.function("before", &before) + &journal.function("phase", &phase)
}

/// What a statement's end does.
pub(super) fn body(journal: &Journal<'_>, event: Event, direct: &Target<'_>) -> String {
    let setting = setting(journal);
    let id = journal.id;
    let nested =
        Target { table: format!("seriatim.journal_{id}_nested"), column: "start, ", value: "started, " };
    let note = journal.note(event, direct);
    let table = &direct.table;
    format!(
        "declare\n    noted bigint;\n    \
         statements pg_catalog.int4[] := pg_catalog.current_setting('{setting}', true)::pg_catalog.int4[];\n    \
         started pg_catalog.int4 := statements[pg_catalog.cardinality(statements) operator(pg_catalog.-) 1];\n    \
         written boolean := false;\n\
         begin\n    \
         statements := statements[1:pg_catalog.cardinality(statements) operator(pg_catalog.-) 2];\n    \
         perform pg_catalog.set_config('{setting}', statements::pg_catalog.text, true);\n    \
         for outer_one in 1 .. (pg_catalog.cardinality(statements) operator(pg_catalog.-) 1) operator(pg_catalog./) 2 loop\n        \
         written := written or statements[outer_one operator(pg_catalog.*) 2 operator(pg_catalog.+) 1] operator(pg_catalog.=) 1;\n    \
         end loop;\n    \
         if written then\n{}    else\n{note}    end if;\n    \
         if pg_catalog.cardinality(statements) operator(pg_catalog.=) 1 then\n        \
         with moved as (delete from seriatim.journal_{id}_nested n where n.xid operator(pg_catalog.=) pg_catalog.pg_current_xact_id() returning n.*)\n        \
         insert into {table} (id, op, at, hash, before, after)\n        \
         select {}, m.op, m.at, m.hash, m.before, m.after\n        \
         from (select * from moved order by start, id) m;\n    end if;\n    return null;\nend\n",
        journal.note(event, &nested),
        journal.next()
    )
}

/// The triggers that note the start of a statement, and that its rows are written.
pub(super) fn triggers(journal: &Journal<'_>) -> String {
    let (id, table) = (journal.id, journal.table.quoted());
    format!(
        "create trigger \"!seriatim_{id}_before\" before insert or update or delete on {table} for each statement \
         execute function seriatim.journal_{id}_before();\n\
         create trigger \"!seriatim_{id}_phase\" after insert or update or delete on {table} for each row \
         execute function seriatim.journal_{id}_phase();\n"
    )
}

fn setting(journal: &Journal<'_>) -> String {
    format!("seriatim_nesting.journal_{}", journal.id)
}
