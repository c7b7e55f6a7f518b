-- Workers publish how long they may be silent before others take their objects, in ms. Null for those of older versions.
alter table seriatim.queue_worker add column expire bigint;

-- Enters a worker with its expiry, in place of the session `replacing` where it holds the name and has not beaten since. Returns who
-- holds the name instead. The function without an expiry stays for workers of older versions.
create function seriatim.queue_join(
    queue_name text, worker_name text, new_session text, replacing text, beat_seen bigint, expire_after bigint
)
returns table (session text, beat bigint, expire bigint)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if replacing is not null then
        perform seriatim.queue_remove(queue_name, worker_name, replacing, beat_seen);
    end if;
    -- Its holder may leave between the two: then once more.
    loop
        insert into seriatim.queue_worker (queue, name, session, beat, seen_at, expire)
        values (queue_name, worker_name, new_session, 0, clock_timestamp(), expire_after)
        on conflict do nothing;
        exit when found;
        return query
            select w.session, w.beat, w.expire from seriatim.queue_worker w where w.queue = queue_name and w.name = worker_name;
        exit when found;
    end loop;
end
$$;
