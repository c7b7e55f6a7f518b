-- Forgets a consumer of a log, if it has it.
select seriatim.log_forget($1::oid::regclass, $2)
