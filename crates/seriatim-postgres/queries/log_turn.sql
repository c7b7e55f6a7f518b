-- Those who open or close feeds of one table take turns, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('seriatim log', $1::oid::bigint))
