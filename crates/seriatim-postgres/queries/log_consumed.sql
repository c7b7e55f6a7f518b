-- Notes where the partitions of a consumer are, and prunes.
select seriatim.log_consumed($1::oid::regclass, $2, variadic $3)
