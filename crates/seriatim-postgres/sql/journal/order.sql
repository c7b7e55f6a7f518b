-- Puts the changes of one row that this transaction has noted so far into the order in which they were made.
--
-- A version of a row (its file and its place in it) is made once and replaced once in a transaction. So the changes of a row form
-- chains: each begins where another one ends. Chains of one key follow each other: the one that began before this transaction first,
-- the one that is not over last. With a version: only what was noted from its successor on.
create or replace function seriatim.journal_N_order(lane int4, wanted text[], file oid, version tid) returns void
language plpgsql set search_path = pg_catalog, pg_temp{settings} as $seriatim$
#variable_conflict use_column
declare
    start bigint := 0;
    noted_order bigint[];
    right_order bigint[];
    transient bigint[];
    alive boolean;
    kept int4 := 0;
begin
    if version is not null then
        select j.id into start from seriatim.journal_N j
        where j.xid = pg_current_xact_id() and j.hash = lane and j.part = file and j.old_at = version
        order by j.id desc limit 1;
        if not found then
            return;
        end if;
    end if;
    with recursive noted as materialized (
        select j.id, j.op, j.part, j.old_at, j.new_at
        from seriatim.journal_N j
        where j.xid = pg_current_xact_id() and j.hash = lane and j.id >= start and {keys} = wanted
    ), barrier (id) as (
        -- Places in files of before a rewrite or a TRUNCATE say nothing about the files of now.
        select greatest(
            (select max(n.id) from noted n where n.part is null or not n.part = any (array({files}))),
            (select max(j.id) from seriatim.journal_N j where j.xid = pg_current_xact_id() and j.hash is null and j.op = 't'), 0)
    ), mine as materialized (
        select n.* from noted n, barrier b where n.id > b.id
    ), walk (id, part, new_at, op, head, head_op, place) as (
        select m.id, m.part, m.new_at, m.op, m.id, m.op, 1 from mine m
        where not exists (select from mine p where p.part = m.part and p.new_at = m.old_at)
        union all
        select m.id, m.part, m.new_at, m.op, w.head, w.head_op, w.place + 1
        from walk w join mine m on m.part = w.part and m.old_at = w.new_at
    ), chains as (
        select w.head, bool_and(w.head_op = 'i') as begins, bool_or(w.op = 'd') as ends from walk w group by w.head
    ), sorted as (
        select w.id, c.begins and c.ends as whole, c.begins and not c.ends as lasts,
            row_number() over (order by c.begins, not c.ends, c.head, w.place) as place
        from walk w join chains c on c.head = w.head
    )
    select array_agg(s.id order by s.id), array_agg(s.id order by s.place),
        case when not bool_or(s.lasts) then array_agg(s.id) filter (where s.whole) end
    into noted_order, right_order, transient
    from sorted s;
{transient}    while kept < cardinality(right_order) and right_order[kept + 1] = noted_order[kept + 1] loop
        kept := kept + 1;
    end loop;
    update seriatim.journal_N j set id = o.id
    from (select r.id as was, nextval('seriatim.journal_N_id'::regclass) as id
          from (select u.id from unnest(right_order[kept + 1:]) with ordinality as u (id, place) order by u.place) r) o
    where kept < cardinality(right_order) and j.xid = pg_current_xact_id() and j.hash = lane and j.id = o.was;
end
$seriatim$;
revoke all on function seriatim.journal_N_order(int4, text[], oid, tid) from public;
