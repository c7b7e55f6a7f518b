-- Adds the leases that a feed lacks: they never had an owner.
insert into seriatim.lease (feed, partition, epoch, version, position)
select $1, partition, 0, 0, $3 from generate_series(0, $2 - 1) partition
on conflict (feed, partition) do nothing
