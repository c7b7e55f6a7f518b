-- Says which parts of its feed leases are on from now on; nobody takes one who has seen it before.
update seriatim.lease
set part = marked.part, version = version + 1
from unnest($2::integer[], $3::text[]) marked (partition, part)
where lease.feed = $1 and lease.partition = marked.partition
