-- How much of a log is without a number, as far as it is counted, and when that is.
select seriatim."LOG_unsequenced"(1000000), (extract(epoch from clock_timestamp()) * 1000000)::bigint
