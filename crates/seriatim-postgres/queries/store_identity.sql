-- Who this store is. The first who asks gives it its identity.
with drawn as (insert into seriatim.store (id) values ($1) on conflict (only_row) do nothing returning id)
select id from drawn union all select id from seriatim.store
