-- How much room everything of Seriatim's takes.
select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
where relnamespace = 'seriatim'::regnamespace and relkind = 'r'
