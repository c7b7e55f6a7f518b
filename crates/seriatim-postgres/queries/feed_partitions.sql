-- How many partitions a feed has; nobody takes it away while this transaction runs.
select partitions from seriatim.feed where name = $1 for share
