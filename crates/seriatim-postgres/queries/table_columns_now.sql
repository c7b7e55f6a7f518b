-- Which transaction altered each column of a table last.
select string_agg(a.xmin::text, ',' order by a.attnum) from pg_attribute a where a.attrelid = $1 and a.attnum > 0
