-- When a parked object is tried again by itself, in milliseconds since 1970. Null where nobody has said.
alter table seriatim_parked add column next_try integer;
