-- Whether the functions of logs tell new partitions from what is wrong: those of older versions do not.
select to_regprocedure('seriatim.log_faults(regclass)') is not null
