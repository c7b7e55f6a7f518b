-- A consumer goes on from another number.
update seriatim.log_consumer set begins = $3, positions = array_append($4, $3)
where log = (select id from seriatim.log where watched::oid = $1) and name = $2
