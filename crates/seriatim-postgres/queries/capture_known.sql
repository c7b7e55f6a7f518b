-- Notes what a capture's triggers know of their table.
update seriatim.capture set known = $2 where id = $1
