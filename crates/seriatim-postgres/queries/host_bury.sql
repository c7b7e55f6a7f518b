-- Takes hosts out whose locks are free, if they have not renewed for so long that nobody can think them alive. Returns them.
delete from seriatim.host
using unnest($1::text[], $2::integer[]) dead (session, lock_number)
where host.session = dead.session and host.lock_number = dead.lock_number
    and host.seen_at < clock_timestamp() - interval '1 minute'
returning host.session
