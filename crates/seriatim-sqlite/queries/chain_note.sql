-- Notes the last change of an object that a checkpoint has passed.
insert into seriatim_chain (feed, object, last_id) values (?1, ?2, ?3)
on conflict (feed, object) do update set last_id = excluded.last_id
-- The id of a row that existed before its feed began takes nobody's place.
where excluded.last_id < 4611686018427387904
