-- A consumer that is written in SQL: a function that gets the changed keys, one after another.

-- Handles up to so many changed keys and returns the last number that it passed; calling it again goes on from there. What the
-- handler writes and how far the consumer is commit together: each change is handled exactly once.
--
-- `handler` is the name of a function (key jsonb, deleted boolean). A key for which it fails is parked and tried again
-- later, after a pause that grows; the others go on.
create or replace function seriatim.log_process(watched regclass, consumer text, handler regproc, most int default 1000)
returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    entry seriatim.log := seriatim.log_entry(watched);
    call text := format('select %s($1, $2)', handler);
    position bigint;
    change record;
begin
    -- One call at a time for each consumer.
    select c.positions[1] into position from seriatim.log_consumer c
    where c.log = entry.id and c.name = consumer for update;
    if not found then
        raise exception 'consumer % of table % is not registered', consumer, watched
            using hint = format('select seriatim.log_register(%L, %L)', watched, consumer);
    end if;
    for change in select p.key from seriatim.log_parked p
        where p.log = entry.id and p.consumer = log_process.consumer and p.retry_at <= clock_timestamp() loop
        perform seriatim.log_handle(entry, consumer, call, change.key);
    end loop;
    for change in execute seriatim.log_sql(entry, $sql$
            select jsonb_build_object([[{c text}, p.{c}|, ]]) as key, p.modified_seq_id from {view} p
            where p.modified_seq_id > $1 order by p.modified_seq_id limit $2
        $sql$) using position, most loop
        perform seriatim.log_handle(entry, consumer, call, change.key);
        position := change.modified_seq_id;
    end loop;
    perform seriatim.log_consumed(watched, consumer, position);
    return position;
end $$;

-- Calls the handler for one key. Its failure is undone, and noted.
create or replace function seriatim.log_handle(entry seriatim.log, consumer text, call text, key jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    deleted boolean;
begin
    execute seriatim.log_sql(entry, $sql$
        select not exists (select 1 from {watched} w, jsonb_populate_record(null::{keys}, $1) k where [[w.{w} = k.{c}| and ]])
    $sql$) into deleted using key;
    execute call using key, deleted;
    delete from seriatim.log_parked p
    where p.log = entry.id and p.consumer = log_handle.consumer and p.key = log_handle.key;
exception when others then
    insert into seriatim.log_parked as p (log, consumer, key, error, retry_at)
    values (entry.id, consumer, key, sqlerrm, clock_timestamp() + interval '1 second')
    on conflict on constraint log_parked_pkey do update set error = excluded.error, attempts = p.attempts + 1,
        retry_at = clock_timestamp() + least(interval '1 second' * 2 ^ p.attempts, interval '1 hour');
end $$;
