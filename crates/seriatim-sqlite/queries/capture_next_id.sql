-- The id that the next capture gets.
select 1 + max(ifnull((select max(id) from seriatim_capture), 0), ifnull((select seq from sqlite_sequence where name = 'seriatim_capture'), 0))
