-- Whether anything in a log is without a number, and the last number there is.
select seriatim."LOG_unsequenced"(1), (select coalesce(max(modified_seq_id), 0) from seriatim."LOG_places")
