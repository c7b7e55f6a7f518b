-- How many consumers a capture has.
select count(*) from seriatim_consumer where capture = ?1
