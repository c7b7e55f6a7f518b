-- Whether anything is known about a signal.
select exists (select 1 from seriatim_once where processor = ?1 and id = ?2)
