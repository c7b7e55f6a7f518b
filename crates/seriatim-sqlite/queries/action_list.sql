-- What people did last.
select at, text from seriatim_action order by id desc limit ?1
