-- Whether somebody reads a slot of this database.
select coalesce(bool_or(active), false) from pg_replication_slots where database = current_database()
