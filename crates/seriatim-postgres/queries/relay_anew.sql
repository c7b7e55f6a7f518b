-- The relay goes on from a slot that was made anew.
update seriatim.relay set fault = null, epoch = relay.epoch + 1, committed = $1::text::pg_lsn, passed = $1::text::pg_lsn,
    system = (select system_identifier::text from pg_control_system()), timeline = (select timeline_id from pg_control_checkpoint())
