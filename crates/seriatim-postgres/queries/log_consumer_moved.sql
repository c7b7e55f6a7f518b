-- A consumer goes on from another number.
update seriatim.log_consumer set begins = $3::bigint, positions = array_append($4::bigint[], $3::bigint)
where log = (select id from seriatim.log where watched::oid = $1) and name = $2
