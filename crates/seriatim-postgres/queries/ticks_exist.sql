-- Whether both ends of a batch are still retained; and which transaction altered each column of the table last.
select exists (select 1 from seriatim.tick where capture = $1 and n = $2)
    and exists (select 1 from seriatim.tick where capture = $1 and n = $3),
    (select string_agg(a.xmin::text, ',' order by a.attnum) from pg_attribute a where a.attrelid = $4 and a.attnum > 0)
