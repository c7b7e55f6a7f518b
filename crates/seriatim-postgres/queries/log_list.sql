-- Lists some of the rows that existed.
select seriatim.log_list($1::oid::regclass, $2)
