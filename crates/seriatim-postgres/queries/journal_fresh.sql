-- A column of the queries of changes: whether this is the first change of its row since $8, of a row after $9 (all rows where that is null, none where it is empty).
(j.op in ('u', 'd') and ($9::text[] is null or cardinality($9::text[]) > 0 and {beyond})
    and not exists (select 1 from seriatim.journal_N e
                    where e.hash = j.hash and e.id < j.id and not pg_visible_in_snapshot(e.xid, $8::text::pg_snapshot) and {same})) as fresh
