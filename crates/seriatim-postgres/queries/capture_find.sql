-- A capture by its table, key and writer. Databases of before have no writers but triggers.
select c.id, c.relation, c.key, c.known, c.ring, c.floor, coalesce(to_jsonb(c) ->> 'writer', 'triggers') from seriatim.capture c
where c.kind = $1 and c.relation = $2 and c.key = $3 and coalesce(to_jsonb(c) ->> 'writer', 'triggers') = $4
