-- Puts words into the log that a relay notes as soon as it has read them; their place.
select pg_logical_emit_message(true, 'seriatim', '')::text
