-- Lets the owners of the partitions of a parked object of a feed, or (null) of all of them, know that somebody asked.
update seriatim_lease
set asked = asked + 1
where feed = ?1
    and partition in (select partition from seriatim_parked where feed = ?1 and (?2 is null or object = ?2))
