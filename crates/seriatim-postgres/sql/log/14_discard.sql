-- What people do about keys that a consumer written in SQL could not handle (`log_parked`).

-- What was dropped of it, and why.
create table if not exists seriatim.log_discarded (
    log      int    not null,
    consumer text   not null,
    key      jsonb  not null,
    error    text   not null,
    reason   text   not null,
    at       timestamptz not null default clock_timestamp()
);

-- Drops a parked key of a consumer, with a reason that is kept: it is not tried again until it changes again. Returns whether it was parked.
-- Touches: log_parked, log_discarded.
create or replace function seriatim.log_discard(watched regclass, consumer text, key jsonb, reason text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception 'a discard needs a reason' using errcode = 'invalid_parameter_value';
    end if;
    with dropped as (
        delete from seriatim.log_parked p
        where p.log = entry.id and p.consumer = log_discard.consumer and p.key = log_discard.key
        returning p.error
    )
    insert into seriatim.log_discarded (log, consumer, key, error, reason)
    select entry.id, log_discard.consumer, log_discard.key, d.error, log_discard.reason from dropped d;
    return found;
end $$;

-- Has a parked key, or all of a consumer's, tried again by the next log_process. Returns how many.
-- Touches: log_parked.
create or replace function seriatim.log_retry(watched regclass, consumer text, key jsonb default null) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    marked bigint;
begin
    update seriatim.log_parked p set retry_at = clock_timestamp()
    where p.log = entry.id and p.consumer = log_retry.consumer and (log_retry.key is null or p.key = log_retry.key);
    get diagnostics marked = row_count;
    return marked;
end $$;
