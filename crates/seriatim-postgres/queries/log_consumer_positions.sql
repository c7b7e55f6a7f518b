-- Where the partitions of a consumer are, as far as they said.
select positions from seriatim.log_consumer
where log = (select id from seriatim.log where watched::oid = $1) and name = $2
