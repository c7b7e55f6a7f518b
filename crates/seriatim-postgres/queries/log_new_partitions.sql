-- Whether a log's table has partitions that its triggers are not on yet, and the name of one that this role may put none on.
select seriatim.log_has_new_partitions($1::oid::regclass),
    (select min(p::text) from seriatim.log_unguarded($1::oid::regclass) p where not has_table_privilege(p, 'trigger'))
