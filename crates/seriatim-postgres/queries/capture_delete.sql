-- Strikes a capture out of the books, with its ticks.
delete from seriatim.capture where id = $1
