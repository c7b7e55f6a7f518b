-- Strikes a capture off the books.
delete from seriatim_capture where id = ?1
