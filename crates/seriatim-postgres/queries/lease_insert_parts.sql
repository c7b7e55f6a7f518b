-- Adds leases on parts of a feed: they never had an owner.
insert into seriatim.lease (feed, partition, epoch, version, position, part)
select $1, born.partition, 0, 0, born.position, born.part
from unnest($2::integer[], $3::text[], $4::text[]) born (partition, position, part)
