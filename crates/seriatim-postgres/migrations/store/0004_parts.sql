-- Which part of its feed a lease is on, as JSON. Null as long as the number of the feed's partitions was never changed; after that, the
-- feed's own number of partitions is 0.
alter table seriatim.lease add column part text;
