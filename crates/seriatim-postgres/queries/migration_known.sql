-- Whether Seriatim was ever in this schema ($2 is its table of versions), whether the schema is there, and who asks.
select to_regclass($2) is not null, exists (select 1 from pg_namespace where nspname = $1), current_user::text
