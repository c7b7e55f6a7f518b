-- Pins the search path of the gates' function: with `pg_temp` at its end, no temporary table or type stands for one of the server's.
alter function seriatim.gate_advance(text, text, bigint, bigint) set search_path = pg_catalog, pg_temp;
