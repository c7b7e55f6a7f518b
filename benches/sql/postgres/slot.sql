-- A slot beside the relay's.
select pg_create_logical_replication_slot($1, 'pgoutput')
