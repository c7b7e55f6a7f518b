-- A capture by its id.
select c.id, c.relation, c.key, c.known, c.ring, c.floor, coalesce(to_jsonb(c) ->> 'writer', 'triggers') from seriatim.capture c where c.id = $1
