-- Whether the relay has come to this place of the log.
select passed >= '{at}'::pg_lsn from seriatim.relay
