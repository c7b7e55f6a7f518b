-- Who reads a log, and how far. Registering is what keeps a busy row, and a deleted one, in reach of a slow reader.

-- Registers a consumer and returns the number that it begins after. `rows`: the rows that existed before come too (see
-- log_list). Calling it again changes nothing and returns the same.
create or replace function seriatim.log_register(watched regclass, consumer text, rows boolean default true) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    begins bigint;
begin
    -- One at a time: nobody gives numbers meanwhile, so that whatever commits from now on comes after.
    perform pg_advisory_xact_lock(seriatim.log_lock(entry.id));
    select c.begins into begins from seriatim.log_consumer c where c.log = entry.id and c.name = consumer;
    if found then
        return begins;
    end if;
    begins := case when rows then 0 else seriatim.log_head(watched) end;
    insert into seriatim.log_consumer (log, name, begins, rows, positions)
    values (entry.id, consumer, begins, log_register.rows, array[begins]);
    if rows then
        perform seriatim.log_list_begin(entry.id);
    end if;
    return begins;
end $$;

-- The last number that was given.
create or replace function seriatim.log_head(watched regclass) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    head bigint;
begin
    execute seriatim.log_sql(entry, 'select case when is_called then last_value else 0 end from {seq}') into head;
    return head;
end $$;

-- Has the rows listed that have no place yet, unless they are or will be.
create or replace function seriatim.log_list_begin(log int) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log;
    rows bigint;
begin
    select * into strict entry from seriatim.log l where l.id = log_list_begin.log;
    if entry.listing <> 'no' then
        return;
    end if;
    -- About how many: counting a big table takes long.
    select coalesce(sum(greatest(c.reltuples, 0)), 0) into rows from pg_class c
    where c.oid = entry.watched or c.oid in (select t.relid from pg_partition_tree(entry.watched) t where t.isleaf);
    if rows < 100000 then
        execute seriatim.log_sql(entry, 'select count(*) from (select 1 from {watched} limit 100000) w') into rows;
    end if;
    update seriatim.log l set listing = 'running', to_list = rows where l.id = entry.id;
end $$;

-- Lists up to so many rows that existed before the log did, as if each had changed. Returns how many it looked at: none when
-- all are listed, null when somebody else gives numbers just now.
create or replace function seriatim.log_list(watched regclass, most int default 1000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    read bigint;
    entry seriatim.log := seriatim.log_freshen(seriatim.log_entry(watched));
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception 'rows are listed in transactions that are READ COMMITTED, and this one is %',
                upper(current_setting('transaction_isolation'))
            using hint = 'begin isolation level read committed';
    end if;
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
    -- Whoever alters the table is waited for here, and not with the sequencer's lock in hand.
    execute format('lock table %s in access share mode', entry.watched);
    execute format('select seriatim.%I($1)', entry.name || '_list') into read using most;
    return read;
end $$;

-- Notes that a consumer has handled everything up to this number, and forgets what nobody needs any more, in small steps.
create or replace function seriatim.log_consumed(watched regclass, consumer text, variadic positions bigint[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
begin
    update seriatim.log_consumer c set positions = log_consumed.positions, seen_at = clock_timestamp()
    where c.log = entry.id and c.name = consumer;
    if not found then
        raise exception 'consumer % of table % is not registered', consumer, watched
            using hint = format('select seriatim.log_register(%L, %L)', watched, consumer);
    end if;
    return seriatim.log_prune(entry.id, 2000);
end $$;

-- Forgets a consumer. Nothing waits for it any more.
create or replace function seriatim.log_forget(watched regclass, consumer text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    delete from seriatim.log_consumer c where c.log = (seriatim.log_entry(watched)).id and c.name = consumer
$$;
