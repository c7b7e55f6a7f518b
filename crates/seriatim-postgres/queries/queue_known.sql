-- Whether there is a queue of this name.
select exists (select from seriatim.queue where name = $1)
