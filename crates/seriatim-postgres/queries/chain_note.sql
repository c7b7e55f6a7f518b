-- Notes the last change of each of these objects ($2) that a checkpoint has passed.
insert into seriatim.chain (feed, object, last_id)
select $1, object, last_id from unnest($2::bytea[], $3::bigint[]) as passed (object, last_id) order by object
on conflict (feed, object) do update set last_id = excluded.last_id
-- The id of a row that existed before its feed began takes nobody's place.
where excluded.last_id < 4611686018427387904
