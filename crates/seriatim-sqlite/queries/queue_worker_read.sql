-- Who holds a name.
select session, beat, expire from seriatim_queue_worker where queue = ?1 and name = ?2
