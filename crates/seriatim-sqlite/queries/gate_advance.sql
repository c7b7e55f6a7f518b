-- Notes the last event of an object that was applied.
insert into seriatim_gate (gate, object, last_id) values (?1, ?2, ?3)
on conflict (gate, object) do update set last_id = excluded.last_id
