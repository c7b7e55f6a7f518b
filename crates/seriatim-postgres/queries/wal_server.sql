-- What the server and the role have for the relay: version, wal_level, whether it is a standby, whether the role may replicate, slots and
-- senders that are free, whether it may make a publication, and the names of the role, the database and the database's number.
select current_setting('server_version_num')::int4 / 10000, current_setting('wal_level'), pg_is_in_recovery(),
    exists (select from pg_roles r where r.rolname = current_user and (r.rolreplication or r.rolsuper))
        or exists (select from pg_roles r where r.rolname = 'rds_replication' and pg_has_role(current_user, r.oid, 'usage')),
    current_setting('max_replication_slots')::int8 - (select count(*) from pg_replication_slots),
    current_setting('max_wal_senders')::int8 - (select count(*) from pg_stat_activity a where a.backend_type = 'walsender'),
    has_database_privilege(current_database(), 'create'), current_user::text, current_database()::text,
    (select d.oid from pg_database d where d.datname = current_database())
