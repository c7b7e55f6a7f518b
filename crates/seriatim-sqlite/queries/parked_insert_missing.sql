-- Parks an object unless it is parked already.
insert or ignore into seriatim_parked (feed, partition, object, key, error, attempts, retrying, next_try, since)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, cast(unixepoch('subsec') * 1000 as integer))
