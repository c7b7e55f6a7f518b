-- What may change while a log is there, and what stays of one that is gone.

-- The triggers of a log as they are: the number of each with the transaction that wrote it last, and the server's major version, since a
-- newer server has other numbers.
create or replace function seriatim.log_triggers(entry seriatim.log) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_object_agg(t.oid::text, t.xmin::text), '{}')
        || jsonb_build_object('major', current_setting('server_version_num')::int / 10000)
    from pg_trigger t
    where (t.tgrelid = entry.watched or t.tgrelid in (select p.relid from pg_partition_tree(entry.watched) p))
        and starts_with(t.tgname::text, 'seriatim_log_')
$$;

-- Remembers triggers that were not known yet. One that is known keeps what is known of it.
create or replace function seriatim.log_note_triggers(entry seriatim.log) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update seriatim.log l set made = (
        select jsonb_object_agg(n.key, case when l.made -> 'major' = now.made -> 'major' then coalesce(l.made -> n.key, n.value) else n.value end)
        from seriatim.log_triggers(l) now (made), jsonb_each(now.made) n)
    where l.id = entry.id
$$;

-- Whether the table has partitions that log_init_partitions has not seen yet.
create or replace function seriatim.log_has_new_partitions(watched regclass) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
begin
    return entry.made is null or exists (select from seriatim.log_unguarded(watched))
        or exists (select from jsonb_object_keys(seriatim.log_triggers(entry)) k where not entry.made ? k);
end $$;

-- The partitions whose TRUNCATE is not noted: they are newer than the log.
create or replace function seriatim.log_unguarded(watched regclass) returns setof regclass
language sql stable set search_path = pg_catalog, pg_temp as $$
    select p.relid from pg_partition_tree(watched) p
    where p.relid <> watched and (seriatim.log_entry(watched)).deletes and not exists (
        select 1 from pg_trigger t where t.tgrelid = p.relid and t.tgname = 'seriatim_log_truncate')
$$;

-- Puts the trigger for TRUNCATE on partitions that came since, and has the sequencer look for rows that they lost before that. The other
-- triggers PostgreSQL has put there itself. Returns how many partitions there were.
create or replace function seriatim.log_init_partitions(watched regclass) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    part regclass;
    new_ones bigint := 0;
begin
    for part in select * from seriatim.log_unguarded(watched) loop
        execute seriatim.log_sql(entry, 'create trigger seriatim_log_truncate before truncate on {part} '
            'execute function seriatim."{log}_truncate"()', jsonb_build_object('part', part::text));
        new_ones := new_ones + 1;
    end loop;
    if new_ones > 0 then
        insert into seriatim.log_truncated (log, xid) values (entry.id, pg_current_xact_id()) on conflict do nothing;
    end if;
    perform seriatim.log_note_triggers(entry);
    return new_ones;
end $$;

-- The last number that a log or a journal has given which is gone; 0 when there was none.
create or replace function seriatim.log_last_number() returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    last_number bigint := coalesce((select w.id from seriatim.log_watermark w), 0);
    of_journals bigint;
begin
    -- That table is there where the program is used.
    if to_regclass('seriatim.watermark') is not null then
        execute 'select w.id from seriatim.watermark w' into of_journals;
    end if;
    return greatest(last_number, of_journals);
end $$;

-- Notes a number that a log has given, before the log is taken out. Logs and journals that are made later go on above it.
create or replace function seriatim.log_note_number(number bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if number is null then
        return;
    end if;
    insert into seriatim.log_watermark as w (id) values (number) on conflict (one) do update set id = greatest(w.id, excluded.id);
    if to_regclass('seriatim.watermark') is not null then
        execute 'insert into seriatim.watermark as w (id) values ($1) on conflict (one) do update set id = greatest(w.id, excluded.id)'
        using number;
    end if;
end $$;
