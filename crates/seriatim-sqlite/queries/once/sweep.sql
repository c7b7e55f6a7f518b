-- Removes some signals that have expired, and runs of which nothing was heard for long.
delete from seriatim_once
where seq in (select seq from seriatim_once where removable_on <= ?1 order by removable_on limit ?2)
