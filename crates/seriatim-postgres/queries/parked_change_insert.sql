-- Keeps changes of parked objects, in order, unless they are kept already.
insert into seriatim.parked_change (parked, change_id, change)
select parked.seq, kept.change_id, kept.change
from unnest($2::bytea[], $3::bigint[], $4::text[]) with ordinality kept (object, change_id, change, place)
join seriatim.parked
    on parked.feed = $1 and sha256(parked.object) = sha256(kept.object)
order by kept.place
on conflict (parked, change_id) do nothing
