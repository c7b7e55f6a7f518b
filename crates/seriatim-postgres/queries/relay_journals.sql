-- The journals that a relay fills: number, table, the ring's table, what is known of the key, and the names of the key's columns now.
select c.id, c.relation, c.ring, c.known,
    array(select a.attname::text from unnest(c.key) with ordinality k (number, place)
          join pg_attribute a on a.attrelid = c.relation and a.attnum = k.number order by k.place)
from seriatim.capture c where c.kind = 'journal' and c.writer = 'relay' order by c.id
