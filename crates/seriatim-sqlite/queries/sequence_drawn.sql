-- Makes sure that a number is not drawn again.
update sqlite_sequence set seq = ?2 where name = ?1 and seq < ?2
