-- Whether there is a queue of this name.
select exists (select 1 from seriatim_queue where name = ?1)
