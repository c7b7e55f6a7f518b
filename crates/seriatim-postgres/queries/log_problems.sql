-- What is not as a log needs it.
select * from seriatim.log_problems($1::oid::regclass)
