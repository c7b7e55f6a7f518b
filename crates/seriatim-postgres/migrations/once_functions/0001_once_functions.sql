-- The ledger for callers that speak SQL: each function is part of the caller's own transaction, and works on the rows that the
-- program works on. A rollback undoes it. The functions have the rights of their caller, who needs
-- `select, insert, update, delete` on the table.

-- Refuses a name that the program could not read. Returns the name.
create or replace function seriatim.once_name(what text, name text, longest integer) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if name is null or name = '' or octet_length(name) > longest or name ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception 'the % % cannot be used', what, coalesce(quote_literal(left(name, 100)), 'null')
            using errcode = 'invalid_parameter_value',
                hint = format('it has 1 to %s bytes and no control characters', longest);
    end if;
    return name;
end
$$;

-- A recorded result as JSON: as it is where it is JSON, else as a text; bytes that are no text in base64.
create or replace function seriatim.once_result(recorded bytea) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    as_text text;
begin
    if coalesce(octet_length(recorded), 0) = 0 then
        return null;
    end if;
    begin
        as_text := convert_from(recorded, 'UTF8');
    exception when data_exception or program_limit_exceeded then
        return to_jsonb(translate(encode(recorded, 'base64'), E'\n', ''));
    end;
    begin
        return as_text::jsonb;
    exception when data_exception or program_limit_exceeded then
        return to_jsonb(as_text);
    end;
end
$$;

-- Says that an attempt no longer counts: the caller's transaction cannot commit what it did.
create or replace function seriatim.once_lost(processor text, id text, attempt text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'signal % of processor %: attempt % no longer counts', id, processor, attempt
        using errcode = 'SR001',
            detail = 'another attempt has the signal, or it was given back or forgotten',
            hint = 'give max_processing_time more room, or call once_beat in time';
end
$$;

-- Claims a signal. Returns {"state":"run","attempt":…}, {"state":"completed","result":…}, {"state":"running"} or {"state":"unknown"}.
-- Waits for a transaction that claims the same signal and has not ended, and for nothing else: `running` means to ask again later.
-- Commit also after `running`: the time of a run from another life of the server is counted from then.
-- Touches: once.
create or replace function seriatim.once_start(
    processor text, id text, max_processing_time interval default '30 seconds', on_timeout text default 'rerun'
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    signal_processor text := seriatim.once_name('processor', processor, 200);
    signal_id text := seriatim.once_name('id', id, 1024);
    rerun boolean := on_timeout = 'rerun';
    most_ms bigint := ceil(extract(epoch from max_processing_time) * 1000)::bigint;
    kept_seconds bigint := case when on_timeout = 'rerun' then 2592000 end;
    life timestamptz := pg_postmaster_start_time();
    mine text := replace(gen_random_uuid()::text, '-', '') || case when on_timeout = 'rerun' then '' else '-kept' end;
    asked timestamptz;
    seen seriatim.once;
begin
    if most_ms is null or most_ms <= 0 then
        raise exception 'max_processing_time is %, and must be longer than nothing', coalesce(max_processing_time::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if on_timeout is null or on_timeout not in ('rerun', 'unknown') then
        raise exception 'on_timeout is %, and must be rerun or unknown', coalesce(quote_literal(on_timeout), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    for try in 1..10 loop
        -- Before the row is read: a run has stood still for no less.
        asked := clock_timestamp();
        insert into seriatim.once as signal
            (processor, id, state, attempt, number, beat, beat_at, beat_in, started_at, limit_ms, removable_on)
        values (signal_processor, signal_id, 'running', mine, 1, 0, asked, life, asked, most_ms,
            ceil(extract(epoch from asked) + most_ms / 1000.0 + kept_seconds)::bigint)
        on conflict (processor, id) do update
        set state = 'running', attempt = mine, number = signal.number + 1, beat = 0, beat_at = clock_timestamp(), beat_in = life,
            started_at = clock_timestamp(), completed_at = null, expires_on = null, limit_ms = most_ms,
            removable_on = ceil(extract(epoch from clock_timestamp()) + most_ms / 1000.0 + kept_seconds)::bigint,
            result = null, not_kept = null
        where (signal.state = 'completed' and signal.expires_on <= floor(extract(epoch from asked))::bigint)
           or (signal.state = 'running' and rerun and signal.beat_in = life
               and extract(epoch from asked - signal.beat_at) * 1000 - 1 > signal.limit_ms);
        if found then
            return jsonb_build_object('state', 'run', 'attempt', mine);
        end if;
        select * into seen from seriatim.once o where o.processor = signal_processor and o.id = signal_id;
        -- It may have been given back, or have expired, since the claim was refused: then once more.
        continue when not found or seen.state = 'completed' and seen.expires_on <= floor(extract(epoch from clock_timestamp()))::bigint;
        if seen.state = 'completed' then
            return jsonb_build_object('state', 'completed', 'result', seriatim.once_result(seen.result));
        elsif seen.state = 'running' and seen.beat_in <> life then
            -- The clock of another life of the server says nothing: from now on this one's counts.
            update seriatim.once o set beat_at = clock_timestamp(), beat_in = life
            where o.processor = signal_processor and o.id = signal_id and o.attempt = seen.attempt and o.beat = seen.beat
              and o.beat_in = seen.beat_in and o.state = 'running';
        elsif seen.state = 'running' and not rerun and extract(epoch from asked - seen.beat_at) * 1000 - 1 > seen.limit_ms then
            update seriatim.once o set state = 'unknown', removable_on = null
            where o.processor = signal_processor and o.id = signal_id and o.attempt = seen.attempt and o.beat = seen.beat
              and o.state = 'running';
            continue;
        end if;
        return jsonb_build_object('state', seen.state);
    end loop;
    raise exception 'signal % of processor % keeps changing', signal_id, signal_processor
        using errcode = 'serialization_failure', hint = 'ask again';
end
$$;

-- A sign of life: the attempt's time counts from now. Fails with SR001 when it no longer counts.
-- Touches: once.
create or replace function seriatim.once_beat(processor text, id text, attempt text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    update seriatim.once o
    set state = 'running', beat = o.beat + 1, beat_at = clock_timestamp(), beat_in = pg_postmaster_start_time(),
        removable_on = o.removable_on + greatest(ceil(extract(epoch from clock_timestamp() - o.beat_at)), 0)::bigint
    where o.processor = once_beat.processor and o.id = once_beat.id and o.attempt = once_beat.attempt and o.state <> 'completed';
    return found or seriatim.once_lost(once_beat.processor, once_beat.id, once_beat.attempt);
end
$$;

-- Records that the effect happened, and its result; `expires_after` null: for ever. Fails with SR001 when the attempt no longer counts.
-- Now and then it removes records that have expired.
-- Touches: once.
create or replace function seriatim.once_complete(
    processor text, id text, attempt text, result jsonb default null, expires_after interval default '30 days'
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    expiry bigint := ceil(extract(epoch from clock_timestamp() + once_complete.expires_after))::bigint;
begin
    update seriatim.once o
    set state = 'completed', completed_at = clock_timestamp(), not_kept = null, expires_on = expiry, removable_on = expiry,
        result = convert_to(coalesce(once_complete.result, 'null')::text, 'UTF8')
    where o.processor = once_complete.processor and o.id = once_complete.id and o.attempt = once_complete.attempt
      and o.state <> 'completed';
    if not found then
        -- Repeating it changes nothing.
        perform from seriatim.once o
        where o.processor = once_complete.processor and o.id = once_complete.id and o.attempt = once_complete.attempt;
        return found or seriatim.once_lost(once_complete.processor, once_complete.id, once_complete.attempt);
    end if;
    -- Another transaction's view would make this one fail for a row that somebody else has claimed since.
    if random() < 1.0 / 256 and current_setting('transaction_isolation') = 'read committed' then
        perform seriatim.once_sweep(1024);
    end if;
    return true;
end
$$;

-- Removes some records that have expired, and waits for nobody. Returns how many.
-- Touches: once.
create or replace function seriatim.once_sweep(at_most integer) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    removed bigint;
begin
    delete from seriatim.once o
    where o.ctid = any (array(
        select s.ctid from seriatim.once s
        where s.removable_on <= floor(extract(epoch from clock_timestamp()))::bigint
        order by s.removable_on limit at_most for update skip locked
    ));
    get diagnostics removed = row_count;
    return removed;
end
$$;

-- Gives the claim back: the next caller runs at once. Fails with SR001 when the attempt no longer counts, or has completed.
-- Touches: once.
create or replace function seriatim.once_fail(processor text, id text, attempt text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    delete from seriatim.once o
    where o.processor = once_fail.processor and o.id = once_fail.id and o.attempt = once_fail.attempt and o.state <> 'completed';
    return found or seriatim.once_lost(once_fail.processor, once_fail.id, once_fail.attempt);
end
$$;
