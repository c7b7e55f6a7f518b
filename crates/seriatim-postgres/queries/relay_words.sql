-- Puts words into the log for the relay, and says where they are: when it has passed that place, it has appended all that is committed by now.
select pg_logical_emit_message(true, 'seriatim', '')::text
