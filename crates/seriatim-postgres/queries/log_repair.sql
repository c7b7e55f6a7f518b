-- Makes the triggers of a log anew.
select seriatim.log_repair($1::oid::regclass)
