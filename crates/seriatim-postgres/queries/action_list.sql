-- What people did last.
select at, text from seriatim.action order by id desc limit $1
