-- The last change of each of these objects ($2) that a checkpoint has passed, in their order.
select chain.last_id
from unnest($2::bytea[]) with ordinality as asked (object, nth)
left join seriatim.chain on chain.feed = $1 and chain.object = asked.object
order by asked.nth
