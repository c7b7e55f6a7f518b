-- Names in a user's query and in functions of a user's view mean what they mean in a session of this role; and what the columns
-- of a table look like, in short.
select set_config('search_path', $2, true),
    (select md5(string_agg(format('%s:%s:%s:%s', a.attnum, a.attname, a.atttypid, a.atttypmod), ',' order by a.attnum))
     from pg_attribute a where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped)
