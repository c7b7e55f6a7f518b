-- Takes hosts out whose locks are free, if they have not renewed for so long that nobody can think them alive. One that is just
-- being written is left alone. Returns them.
with dead as materialized (
    select host.name
    from seriatim.host
    join unnest($1::text[], $2::integer[]) dead (session, lock_number)
        on host.session = dead.session and host.lock_number = dead.lock_number
    where host.seen_at < clock_timestamp() - interval '1 minute'
    for update of host skip locked
)
delete from seriatim.host using dead where host.name = dead.name returning host.session
