-- The highest id that captures had drawn which are taken out by now. SQLite's own table outlives ours.
select ifnull(max(seq), 0) from sqlite_sequence where name = 'seriatim_drawn'
