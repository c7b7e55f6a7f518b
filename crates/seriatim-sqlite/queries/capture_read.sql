-- One capture by its id.
select id, kind, table_name, key_slots, shapes, known, floor, pruned, seeds, seeded from seriatim_capture where id = ?1
