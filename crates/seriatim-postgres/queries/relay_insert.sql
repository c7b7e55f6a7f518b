-- Writes down a relay whose slot was just made.
insert into seriatim.relay (slot, publication, foreign_publication, system, timeline, committed, passed)
select $1, $2, $3, s.system_identifier::text, c.timeline_id, $4::text::pg_lsn, $4::text::pg_lsn
from pg_control_system() s, pg_control_checkpoint() c
