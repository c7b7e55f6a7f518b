-- When a parked object is tried again by itself, by the clock of the host that parked it. Null where nobody has said.
alter table seriatim.parked add column next_try timestamptz;
