-- Parks an object, or tells why it is parked now; it keeps its place and its time.
insert into seriatim_parked (feed, partition, object, key, error, attempts, retrying, next_try, since)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, cast(unixepoch('subsec') * 1000 as integer))
on conflict (feed, object) do update
set error = excluded.error, attempts = excluded.attempts, retrying = excluded.retrying, next_try = excluded.next_try
