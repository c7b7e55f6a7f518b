-- All captures of a kind.
select id, kind, table_name, key_slots, shapes, known, floor, pruned, seeds, seeded from seriatim_capture where kind = ?1 order by id
