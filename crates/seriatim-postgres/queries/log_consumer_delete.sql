-- Forgets a consumer of a log.
delete from seriatim.log_consumer c using seriatim.log l
where c.log = l.id and l.watched::oid = $1 and c.name = $2
