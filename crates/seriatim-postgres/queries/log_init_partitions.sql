-- Puts a log's triggers on partitions that came since.
select seriatim.log_init_partitions($1::oid::regclass)
