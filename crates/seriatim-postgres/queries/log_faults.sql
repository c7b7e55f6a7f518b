-- What is not as a log needs it, but for partitions that are new.
select * from seriatim.log_faults($1::oid::regclass)
