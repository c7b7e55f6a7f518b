-- The columns that a table had, oldest first, and the id that each began after.
select since, columns from seriatim.shape where capture = $1 order by number
