-- The last number that a log has given.
select seriatim.log_head($1::oid::regclass)
